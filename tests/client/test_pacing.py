"""The first call of a period, or the last before it is quiet: on every engine."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stoker import Job, JobHandle, Policy, State, Stoker, Task, current, fixed
from stoker.errors import BadInput, Duplicate, NotFound
from stoker.kernel.pacing import OncePer
from stoker.store import Filter
from stoker.testing import Harness

CROWD = 12


@pytest.fixture
def sync(app: Stoker) -> Task[[str], str]:
    @app.task(name="sync")
    def sync(word: str) -> str:
        return word

    return sync


def told(*jobs: JobHandle[Any]) -> list[tuple[int, bool]]:
    return [(job.id, job.fresh) for job in jobs]


def crowd(call: Any) -> list[JobHandle[Any]]:
    """Many callers at the same moment."""
    start = threading.Barrier(CROWD)

    def one(number: int) -> JobHandle[Any]:
        start.wait()
        job: JobHandle[Any] = call(str(number))
        return job

    with ThreadPoolExecutor(CROWD) as pool:
        return list(pool.map(one, range(CROWD)))


# -- once per ------------------------------------------------------------------------------


def test_only_the_first_call_of_a_period_becomes_a_job(
    stoker: Harness, sync: Task[[str], str]
) -> None:
    once = sync.options(unique="ann", once_per="10m")
    first, second = once.enqueue("1"), once.enqueue("2")
    other = sync.options(unique="bob", once_per="10m").enqueue("3")
    assert told(first, second, other) == [(1, True), (1, False), (2, True)]
    assert stoker.drain() == 2
    stoker.clock.advance("9m59s")
    third = once.enqueue("4")
    assert (told(third), third.result) == ([(1, False)], "1")
    stoker.clock.advance("1s")
    assert told(once.enqueue("5"), once.enqueue("6")) == [(3, True), (3, False)]


def test_the_first_call_counts_also_when_nothing_is_kept_of_its_job(
    stoker: Harness, app: Stoker, sync: Task[[str], str]
) -> None:
    app.configure("default", retention={"finished": 0})
    once = sync.options(unique="ann", once_per="10m")
    first = once.enqueue("1")
    stoker.drain()
    second = once.enqueue("2")
    assert told(second) == [(first.id, False)]
    with pytest.raises(NotFound):
        _ = second.result


def test_a_period_that_is_over_does_not_make_a_twin_of_a_job_that_lives(
    stoker: Harness, sync: Task[[str], str]
) -> None:
    once = sync.options(unique="ann", once_per="1m")
    first = once.enqueue("1")
    stoker.clock.advance("5m")
    assert told(once.enqueue("2")) == [(first.id, False)]
    stoker.drain()
    assert once.enqueue("3").fresh


def test_a_call_that_comes_too_early_can_be_refused(
    stoker: Harness, sync: Task[[str], str]
) -> None:
    once = sync.options(unique="ann", once_per="10m", if_exists="reject")
    first = once.enqueue("1")
    stoker.drain()
    with pytest.raises(Duplicate, match="was the first") as error:
        once.enqueue("2")
    assert error.value.existing_id == first.id


def test_of_many_callers_at_once_one_is_the_first(
    stoker: Harness, app: Stoker, sync: Task[[str], str]
) -> None:
    jobs = crowd(sync.options(unique="ann", once_per="10m").enqueue)
    assert sorted(job.fresh for job in jobs) == [False] * (CROWD - 1) + [True]
    assert len({job.id for job in jobs}) == len(app.desk.store.find(Filter())) == 1


def test_the_first_is_found_though_its_caller_died_before_it_was_named(
    stoker: Harness, app: Stoker, sync: Task[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    once = sync.options(unique="ann", once_per="10m")
    with monkeypatch.context() as patched:
        patched.setattr(app.desk.pacing, "_name_first", die)
        with pytest.raises(KeyboardInterrupt):
            once.enqueue("1")
    assert told(once.enqueue("2")) == [(1, False)]
    stoker.drain()
    assert told(once.enqueue("3")) == [(1, False)]
    app.job(1).delete()
    assert once.enqueue("4").fresh


def test_the_first_may_have_a_reference_that_is_taken(
    stoker: Harness, sync: Task[[str], str]
) -> None:
    there = sync.options(ref="r").enqueue("0")
    assert told(sync.options(unique="u", once_per="1m", ref="r").enqueue("1")) == [
        (there.id, False)
    ]


# -- debounce ------------------------------------------------------------------------------


def test_the_last_call_counts_when_it_has_been_quiet_for_long_enough(
    stoker: Harness, sync: Task[[str], str]
) -> None:
    calm = sync.options(unique="ann", debounce="5s")
    first = calm.enqueue("1")
    stoker.clock.advance("4s")
    second = calm.enqueue("2")
    stoker.clock.advance("4s")
    third = calm.enqueue("3")
    assert told(first, second, third) == [(1, True), (1, False), (1, False)]
    assert stoker.drain() == 0
    stoker.clock.advance("5s")
    assert (stoker.drain(), third.result) == (1, "3")
    assert told(calm.enqueue("4")) == [(2, True)]


def test_a_job_is_not_put_off_longer_than_at_most_after_the_first_call(
    stoker: Harness, sync: Task[[str], str]
) -> None:
    calm = sync.options(unique="ann", debounce="5s", at_most="12s")
    for second in range(12):
        job = calm.enqueue(str(second))
        assert stoker.drain() == 0
        stoker.clock.advance("1s")
    assert (stoker.drain(), job.result) == (1, "11")


def test_a_call_while_the_job_runs_starts_a_new_one(stoker: Harness, app: Stoker) -> None:
    later: list[JobHandle[str]] = []

    @app.task(name="slow", retry=fixed("1h", limit=1))
    def slow(word: str) -> str:
        if word == "1" and current().attempt == 1:
            later.extend([calm.enqueue("2"), calm.enqueue("3")])
            raise OSError("tried again in an hour, as it is")
        return word

    calm = slow.options(unique="ann", debounce="5s")
    first = calm.enqueue("1")
    stoker.clock.advance("5s")
    assert stoker.drain() == 1
    assert told(*later) == [(2, True), (2, False)]
    assert (first.state, first.job.payload) == (State.QUEUED, b'{"word":"1"}')
    stoker.clock.advance("5s")
    assert (stoker.drain(), later[0].result) == (1, "3")
    stoker.clock.advance("1h")
    assert (stoker.drain(), first.result) == (1, "1")


def test_of_many_callers_at_once_all_are_heard(
    stoker: Harness, app: Stoker, sync: Task[[str], str]
) -> None:
    jobs = crowd(sync.options(unique="ann", debounce="5s").enqueue)
    assert sorted(job.fresh for job in jobs) == [False] * (CROWD - 1) + [True]
    (job,) = app.desk.store.find(Filter())
    assert job.revision == CROWD - 1
    stoker.clock.advance("5s")
    assert stoker.drain() == 1


def test_both_can_be_awaited(stoker: Harness, sync: Task[[str], str]) -> None:
    async def calls() -> list[JobHandle[str]]:
        once = sync.options(unique="ann", once_per="1m")
        return [await once.aenqueue("1"), await once.aenqueue("2")]

    assert told(*asyncio.run(calls())) == [(1, True), (1, False)]


# -- what makes no sense -------------------------------------------------------------------


def test_what_makes_no_sense_is_refused(app: Stoker, sync: Task[[str], str]) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"once_per": "1m"}, "once_per needs a unique key"),
        ({"debounce": "1m"}, "debounce needs a unique key"),
        ({"unique": "u", "once_per": "1m", "debounce": "1m"}, "say one of them"),
        ({"unique": "u", "at_most": "1m"}, "say both"),
        ({"unique": "u", "once_per": "1m", "at_most": "1m"}, "say both"),
        ({"unique": "u", "debounce": "1m", "at_most": "5s"}, r"at_most \(5s\) must not be less"),
        ({"unique": "u", "debounce": 0}, "more than 0"),
        ({"unique": "u", "once_per": 0}, "more than 0"),
        ({"unique": "u", "debounce": "5s", "delay": "5s"}, "leave out the delay"),
        ({"unique": "u", "debounce": "5s", "ref": "r"}, "none has a ref"),
        ({"unique": "u", "debounce": "5s", "if_exists": "reject"}, "cannot be refused"),
        ({"unique": "u", "once_per": "5s", "if_exists": "update"}, "to keep the last, debounce"),
    ]
    for options, words in cases:
        with pytest.raises(BadInput, match=words):
            sync.options(**options).enqueue("1")
    once = sync.options(unique="u", once_per="5s")
    repeating = Job("q", unique_key="u", policy=Policy(repeat="every 5m"))
    with pytest.raises(BadInput, match="time of its own"):
        app.desk.pacing.enqueue(repeating, OncePer(5_000_000))
    with pytest.raises(BadInput, match="by itself"):
        app.enqueue_many([once.call("1"), once.call("2")])
    with pytest.raises(BadInput, match="transaction of your own"):
        once.within(object()).enqueue("1")
    assert app.desk.store.find(Filter()) == []
