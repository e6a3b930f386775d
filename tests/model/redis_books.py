"""What Redis keeps besides the jobs must follow from the jobs: lines, heads, indexes, names."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import redis

from stoker.kernel.job import QUEUED, Job, load
from stoker.kernel.queue import Order, QueueSettings
from stoker.store import Filter
from stoker.store.redis import RedisStore
from stoker.store.redis.layout import number_of, unsorted
from stoker.store.redis.names import name_in_store
from stoker.store.redis.stand import FREE, MARKS, lane, place, stand
from stoker.store.twins import names_held

_FIXED = ("id", "meta", "queues", "lines", "notes", "fading", "sessions", "locks", "b")
_OWN_TERMS = ("q", "j", "l", "k", "h", "g", "o", "z", "d", "p", "a", "holders")
_ORDER = 22
_NUMBER = 8
_FILLER = b"\xff" * 65  # which makes the server lay out a hash as such

Settings = dict[str, QueueSettings]


def assert_books_balance(store: RedisStore) -> None:
    """Recount everything that follows from the jobs."""
    jobs = store.find(Filter(limit=100_000))
    with redis.Redis(unix_socket_path=store.options.addresses[0].host) as client:
        kept = _kept(client, f"{{{store.options.prefix}.0}}:")
    settings = {view.name: view.settings for view in store.survey()}
    expected = _expected(jobs, settings) | _members(store)
    lanes = {queue: set(expected.pop(f"k:{queue}", ())) for queue in settings}
    found = {name: value for name, value in kept.items() if not _on_own_terms(name)}
    assert found == expected
    for queue, told in settings.items():
        _assert_heads(kept, queue, told, lanes[queue])
    _assert_bodies(kept, jobs)


def _kept(client: Any, tag: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key in client.scan_iter(match=f"{tag}*", count=1000):
        name = key.decode(errors="surrogateescape").removeprefix(tag)
        kind = client.type(key)
        if kind == b"zset":
            kept[name] = dict(client.zrange(key, 0, -1, withscores=True))
        elif kind == b"hash":
            kept[name] = client.hgetall(key)
            kept[name].pop(_FILLER, None)
        elif kind == b"set":
            kept[name] = client.smembers(key)
    return kept


def _on_own_terms(name: str) -> bool:
    return name in _FIXED or name.split(":", maxsplit=1)[0] in _OWN_TERMS


def _expected(jobs: list[Job], settings: Settings) -> dict[str, Any]:
    expected: dict[str, Any] = defaultdict(dict)
    used: dict[str, Counter[bytes]] = defaultdict(Counter)
    for job in jobs:
        number = number_of(job.id)
        for index, before, score in stand(job)[MARKS]:
            expected[index][before + number] = float(score)
        if job.state is QUEUED:
            line, member = _in_line(job, settings[job.queue])
            expected[line][member] = 0.0
        for name in names_held(job):
            bucket, text = name_in_store(name)
            expected[f"n:{bucket}"][text.encode()] = number
        if job.key is not None and load(job) and _limits_units_of_keys(settings[job.queue]):
            used[f"u:{job.queue}"][job.key.encode()] += load(job)
        if settings[job.queue].limits_task(job.name) and load(job):
            used[f"v:{job.queue}"][job.name.encode()] += load(job)
    for line, by_name in used.items():
        expected[line] = {name: str(units).encode() for name, units in by_name.items()}
    return dict(expected)


def _by_key(settings: QueueSettings) -> bool:
    """Is anything said about keys?"""
    rates = settings.key_rate or settings.key_rates
    return bool(_limits_units_of_keys(settings) or rates or settings.fair)


def _limits_units_of_keys(settings: QueueSettings) -> bool:
    return bool(settings.key_capacity or settings.keys or settings.shares)


def _members(store: RedisStore) -> dict[str, Any]:
    """Queues by the one they are within, with what each has in use."""
    members: dict[str, Any] = defaultdict(dict)
    for view in store.survey():
        outer = view.settings.within
        if outer is not None and outer != view.name:
            members[f"i:{outer}"][view.name.encode()] = str(view.used).encode()
    return members


def _in_line(job: Job, settings: QueueSettings) -> tuple[str, bytes]:
    where = place(job)
    order = where[8:] + where[:8] if settings.order is Order.TIME_RANK else where
    order += number_of(job.id)
    which = lane(job)
    if which == FREE:
        return f"f:{job.queue}", order
    if not _by_key(settings):
        which = None
    name = b"" if which is None else str(which).encode()
    if settings.limits_task(job.name):
        task = job.name.encode()
        kind = b"\x81" if which is None else b"\x80"
        name = kind + len(task).to_bytes(3, "big") + task + name
    elif which is None:
        return f"r:{job.queue}", order
    return f"k:{job.queue}", len(name).to_bytes(4, "big") + name + order


def _assert_heads(
    kept: dict[str, Any], queue: str, settings: QueueSettings, lanes: set[bytes]
) -> None:
    """The foremost of every lane and bucket are heads, unless the lane is shut, or sleeps in a fair
    queue until something in it is due. All others, and the last of each row, are in the line of
    lanes. lanes: all who stand in one, as if none were a head."""
    orders, names = _in_lanes(lanes, settings)
    size, known = _head_size(settings), kept.get(f"o:{queue}", {})
    heads = {line: set(kept.get(f"{line}:{queue}", ())) for line in ("h", "g")}
    shut, asleep = kept.get(f"z:{queue}", set()), kept.get(f"d:{queue}", {})
    for field in orders.keys() - known.keys():
        due = _due(orders[field][0], settings)
        sleeps = settings.fair and asleep.get(names[field], math.inf) <= due
        assert names[field] in shut or sleeps
    assert known.keys() <= orders.keys()
    left = set(lanes)
    for field, row in known.items():
        line, prefix = _line_of_heads(names[field])
        lined_up = [row[at : at + size] for at in range(0, len(row), size)]
        marked = {prefix + head + b"\0" + names[field]: head for head in lined_up[:-1]}
        marked[prefix + lined_up[-1] + b"\1" + names[field]] = lined_up[-1]
        present = [member for member in marked if member in heads[line]]
        heads[line].difference_update(present)
        in_row = [marked[member][size - _ORDER :] for member in present]
        assert present[-1:] == [*marked][-1:], "the last of a row is among the heads"
        assert in_row == orders[field][: len(in_row)]
        left.difference_update(_member(names[field], order) for order in in_row[:-1])
        if settings.fair:
            turn = unsorted(marked[present[0]][:_NUMBER])
            _assert_turn(kept, queue, settings, names[field], turn)
    assert not heads["h"]
    assert not heads["g"]
    assert left == set(kept.get(f"k:{queue}", ()))


def _member(name: bytes, order: bytes) -> bytes:
    return len(name).to_bytes(4, "big") + name + order


def _in_lanes(
    lanes: set[bytes], settings: QueueSettings
) -> tuple[dict[bytes, list[bytes]], dict[bytes, bytes]]:
    """By lane and bucket the orders in it, and the name of its lane."""
    orders: dict[bytes, list[bytes]] = defaultdict(list)
    names = {}
    for member in sorted(lanes):
        length = 4 + int.from_bytes(member[:4], "big")
        order = member[length:]
        field = member[:length] + (b"" if settings.order is Order.TIME_RANK else order[:8])
        orders[field].append(order)
        names[field] = member[4:length]
    return orders, names


def _head_size(settings: QueueSettings) -> int:
    """In a fair queue a number stands before the order, and by what jobs are sorted if they age."""
    if not settings.fair:
        return _ORDER
    return _NUMBER + (2 * _ORDER if settings.ageing else _ORDER)


def _due(order: bytes, settings: QueueSettings) -> int:
    return unsorted(order[:8] if settings.order is Order.TIME_RANK else order[8:16])


def _line_of_heads(name: bytes) -> tuple[str, bytes]:
    if name[:1] not in (b"\x80", b"\x81"):
        return "h", b""
    task = name[4 : 4 + int.from_bytes(name[1:4], "big")]
    return "g", len(task).to_bytes(4, "big") + task


def _assert_turn(
    kept: dict[str, Any], queue: str, settings: QueueSettings, name: bytes, turn: int
) -> None:
    """A head stands where its party has got to, or further back than the queue is by now. It alone
    may know where that is if no other head can be the party's."""
    key = b"=" + name
    if name[:1] in (b"\x80", b"\x81"):
        rest = name[4 + int.from_bytes(name[1:4], "big") :]
        key = b"=" + rest if name[:1] == b"\x80" else b""
    page = kept[f"q:{queue}"]
    clock, reached = int(page.get(b"t", 0)), kept.get(f"p:{queue}", {}).get(key, 0)
    one_bucket = settings.order is Order.TIME_RANK or page[b"b"] != b"*"
    alone = one_bucket and not (settings.tasks or settings.task_rates)
    assert turn == reached or max(turn, reached) <= clock or (alone and reached < turn)


def _assert_bodies(kept: dict[str, Any], jobs: list[Job]) -> None:
    numbers = {number_of(job.id) for job in jobs}
    bodies = {number for name in kept if name.startswith("j:") for number in kept[name]}
    lives = {number for name in kept if name.startswith("l:") for number in kept[name]}
    assert bodies == numbers
    assert lives <= numbers
    assert set(kept.get("b", ())) == {number[:5] for number in numbers}
