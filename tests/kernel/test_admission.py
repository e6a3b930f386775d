"""The turnstile: never more than a limit allows, and no pushing in within a key."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.kernel.admission import Admission, Turnstile, of_key
from stoker.kernel.queue import QueueSettings

ENTER, KEY_FULL, QUEUE_FULL = Admission.ENTER, Admission.KEY_FULL, Admission.QUEUE_FULL

Asked = list[tuple[str | None, int]]


class Ledger:
    """Books with these entries."""

    def __init__(self, used: int = 0, held: dict[str, int] | None = None) -> None:
        self._used = {"": used} | {of_key(key): units for key, units in (held or {}).items()}
        self.looked_up: list[str] = []

    def used(self, queue: str, meter: str) -> int:
        self.looked_up.append(meter)
        return self._used.get(meter, 0) if queue == "q" else 0

    def flow(self, queue: str, meter: str) -> str:
        raise AssertionError(f"nobody has a rate in {queue}, also not {meter}")


def ask(
    settings: QueueSettings, asked: Asked, used: int = 0, held: dict[str, int] | None = None
) -> list[Admission]:
    turnstile = Turnstile("q", settings, Ledger(used, held), now=0)
    return [turnstile.ask(key, "", weight) for key, weight in asked]


def test_without_limits_everybody_enters() -> None:
    asked: Asked = [("k", 5000), (None, 1), ("k", 0)]
    assert ask(QueueSettings(), asked, used=10**9) == [ENTER] * 3


@pytest.mark.parametrize(
    ("used", "weights", "expected"),
    [
        (0, [1000, 1000, 1000], [ENTER, ENTER, QUEUE_FULL]),
        (1000, [1000, 1], [ENTER, QUEUE_FULL]),
        (1500, [1000, 500], [QUEUE_FULL, QUEUE_FULL]),
        (0, [500, 500, 1000], [ENTER, ENTER, ENTER]),
        (0, [9000, 1], [ENTER, QUEUE_FULL]),
        (1, [9000], [QUEUE_FULL]),
        (2000, [0, 0], [ENTER, ENTER]),
        (5000, [1, 0], [QUEUE_FULL, ENTER]),
    ],
)
def test_a_queue_takes_in_what_fits_in_the_order_asked(
    used: int, weights: list[int], expected: list[Admission]
) -> None:
    assert ask(QueueSettings(capacity=2), [(None, w) for w in weights], used) == expected


def test_a_full_key_stops_its_own_jobs_only() -> None:
    settings = QueueSettings(key_capacity=1)
    asked: Asked = [("a", 1000), ("a", 1000), ("b", 1000), (None, 1000), ("a", 1), ("b", 1)]
    assert ask(settings, asked) == [ENTER, KEY_FULL, ENTER, ENTER, KEY_FULL, KEY_FULL]


def test_what_a_key_holds_already_counts() -> None:
    asked: Asked = [("a", 1000), ("b", 1000)]
    settings = QueueSettings(key_capacity=2, keys={"b": 1})
    assert ask(settings, asked, 2500, {"a": 1500, "b": 0}) == [KEY_FULL, ENTER]


def test_a_job_refused_for_its_keys_sake_uses_no_room_of_the_queue() -> None:
    settings = QueueSettings(capacity=2, key_capacity=1)
    asked: Asked = [("a", 1000), ("a", 1000), ("b", 1000), ("c", 1)]
    assert ask(settings, asked) == [ENTER, KEY_FULL, ENTER, QUEUE_FULL]


def test_a_job_refused_by_the_outer_queue_uses_no_room_of_its_own() -> None:
    outer = Turnstile("outer", QueueSettings(capacity=1), Ledger(), now=0)
    settings = QueueSettings(capacity=1, within="outer")
    inner = [Turnstile(name, settings, Ledger(), 0, outer) for name in ("a", "b")]
    assert [turnstile.ask(None, "", 1000) for turnstile in inner] == [ENTER, QUEUE_FULL]
    assert inner[1].full


def test_a_key_is_looked_up_only_once_and_only_if_it_is_limited() -> None:
    ledger = Ledger()
    turnstile = Turnstile("q", QueueSettings(keys={"a": 5, "b": 5}), ledger, now=0)
    for key in ("a", "a", "c", "b", "a"):
        turnstile.ask(key, "", 1000)
    assert ledger.looked_up == ["=a", "=b"]


settings = st.builds(
    QueueSettings,
    capacity=st.none() | st.sampled_from([0.5, 1, 3, 7.25]),
    key_capacity=st.none() | st.sampled_from([0.5, 1, 2.5]),
    keys=st.dictionaries(st.sampled_from("ab"), st.sampled_from([0.25, 2, 5]), max_size=2),
)
crowds = st.lists(
    st.tuples(
        st.none() | st.sampled_from("abc"), st.sampled_from([0, 1, 250, 500, 1000, 1500, 4000])
    ),
    max_size=40,
)
burdens = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3000), max_size=3)


@given(settings=settings, asked=crowds, held=burdens)
def test_no_limit_is_exceeded_except_by_one_job_that_runs_alone(
    settings: QueueSettings, asked: Asked, held: dict[str, int]
) -> None:
    inside: Counter[str | None] = Counter(held)
    inside[None] = sum(held.values())
    answers = ask(settings, asked, inside[None], held)
    for (key, weight), answer in zip(asked, answers, strict=True):
        if answer is not ENTER or weight == 0:
            continue
        limits = [(None, settings.units())] + ([(key, settings.key_units(key))] if key else [])
        for whom, limit in limits:
            alone = inside[whom] == 0
            inside[whom] += weight
            assert limit is None or inside[whom] <= limit or alone


@given(settings=settings, asked=crowds, held=burdens)
def test_nobody_overtakes_within_a_key_or_past_a_full_queue(
    settings: QueueSettings, asked: Asked, held: dict[str, int]
) -> None:
    answers = ask(settings, asked, sum(held.values()), held)
    queue_full, shut = False, set[str | None]()
    for (key, weight), answer in zip(asked, answers, strict=True):
        if weight == 0:
            assert answer is ENTER
            continue
        if answer is ENTER:
            assert not queue_full
            assert key not in shut
        queue_full |= answer is QUEUE_FULL
        if answer is KEY_FULL:
            shut.add(key)


@given(settings=settings, asked=crowds, held=burdens)
def test_whoever_is_refused_really_does_not_fit_or_stands_behind_one_who_does_not(
    settings: QueueSettings, asked: Asked, held: dict[str, int]
) -> None:
    used, by_key = sum(held.values()), Counter(held)
    queue_full, shut = False, set[str]()
    answers = ask(settings, asked, used, held)
    for (key, weight), answer in zip(asked, answers, strict=True):
        limit = settings.units()
        if answer is QUEUE_FULL and not queue_full:
            assert limit is not None
            assert used + weight > limit
            queue_full = True
        elif answer is KEY_FULL:
            assert key is not None
            key_limit = settings.key_units(key)
            assert key_limit is not None
            assert key in shut or by_key[key] + weight > key_limit
            shut.add(key)
        elif answer is ENTER:
            used += weight
            if key is not None:
                by_key[key] += weight
