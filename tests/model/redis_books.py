"""What Redis keeps besides the jobs must follow from the jobs: lines, heads, indexes, names."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import redis

from stoker.kernel.job import QUEUED, Job, load
from stoker.kernel.queue import Order
from stoker.store import Filter
from stoker.store.redis import RedisStore
from stoker.store.redis.layout import number_of
from stoker.store.redis.names import name_in_store
from stoker.store.redis.stand import FREE, MARKS, lane, place, stand
from stoker.store.twins import names_held

_FIXED = ("id", "meta", "queues", "lines", "notes", "fading", "sessions", "locks", "b")
_OWN_TERMS = ("q", "j", "l", "h", "o", "z", "a", "holders")


def assert_books_balance(store: RedisStore) -> None:
    """Recount everything that follows from the jobs."""
    jobs = store.find(Filter(limit=100_000))
    with redis.Redis(unix_socket_path=store.options.addresses[0].host) as client:
        kept = _kept(client, f"{{{store.options.prefix}.0}}:")
    time_first = {view.name for view in store.survey() if view.settings.order is Order.TIME_RANK}
    expected = _expected(jobs, time_first)
    found = {name: value for name, value in kept.items() if not _on_own_terms(name)}
    assert found == expected
    _assert_heads(kept, time_first)
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
        elif kind == b"set":
            kept[name] = client.smembers(key)
    return kept


def _on_own_terms(name: str) -> bool:
    return name in _FIXED or name.split(":", maxsplit=1)[0] in _OWN_TERMS


def _expected(jobs: list[Job], time_first: set[str]) -> dict[str, Any]:
    expected: dict[str, Any] = defaultdict(dict)
    used: dict[str, Counter[bytes]] = defaultdict(Counter)
    for job in jobs:
        number = number_of(job.id)
        for index, before, score in stand(job)[MARKS]:
            expected[index][before + number] = float(score)
        if job.state is QUEUED:
            line, member = _in_line(job, time_first)
            expected[line][member] = 0.0
        for name in names_held(job):
            bucket, text = name_in_store(name)
            expected[f"n:{bucket}"][text.encode()] = number
        if job.key is not None and load(job):
            used[f"u:{job.queue}"][job.key.encode()] += load(job)
    for line, by_key in used.items():
        expected[line] = {key: str(units).encode() for key, units in by_key.items()}
    return dict(expected)


def _in_line(job: Job, time_first: set[str]) -> tuple[str, bytes]:
    where = place(job)
    order = where[8:] + where[:8] if job.queue in time_first else where
    order += number_of(job.id)
    which = lane(job)
    if which is None:
        return f"r:{job.queue}", order
    if which == FREE:
        return f"f:{job.queue}", order
    key = str(which).encode()
    return f"k:{job.queue}", len(key).to_bytes(4, "big") + key + order


def _assert_heads(kept: dict[str, Any], time_first: set[str]) -> None:
    """The line of heads has the first of every lane and bucket, unless the lane is shut."""
    for name in [name for name in kept if name.startswith(("k:", "h:", "o:"))]:
        queue = name.partition(":")[2]
        firsts: dict[bytes, bytes] = {}
        for member in sorted(kept.get(f"k:{queue}", ())):
            length = 4 + int.from_bytes(member[:4], "big")
            order = member[length:]
            bucket = b"" if queue in time_first else order[:8]
            firsts.setdefault(member[:length] + bucket, order)
        heads = kept.get(f"o:{queue}", {})
        shut = kept.get(f"z:{queue}", set())
        assert heads.items() <= firsts.items()
        lanes = {field: _key_in(field) for field in firsts}
        assert all(lanes[field] in shut for field in firsts.keys() - heads.keys())
        members = {order + lanes[field] for field, order in heads.items()}
        assert set(kept.get(f"h:{queue}", ())) == members


def _key_in(field: bytes) -> bytes:
    return field[4 : 4 + int.from_bytes(field[:4], "big")]


def _assert_bodies(kept: dict[str, Any], jobs: list[Job]) -> None:
    numbers = {number_of(job.id) for job in jobs}
    bodies = {number for name in kept if name.startswith("j:") for number in kept[name]}
    lives = {number for name in kept if name.startswith("l:") for number in kept[name]}
    assert bodies == numbers
    assert lives <= numbers
    assert set(kept.get("b", ())) == {number[:5] for number in numbers}
