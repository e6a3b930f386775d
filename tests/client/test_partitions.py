"""Calls at a pace, chains and groups where the jobs of a store are spread over partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker import Desk, State, Stoker, Summary, Task, chain, group, previous
from stoker.kernel.change import Change
from stoker.store import Receipt
from stoker.store.redis import RedisStore
from stoker.store.redis.spread import Spread
from stoker.testing import Harness, VirtualClock
from tests.client.conftest import NEW_YEAR
from tests.servers import valkey

PEOPLE = ("ann", "bob", "cleo", "dan", "eve", "finn")


@pytest.fixture
def stoker() -> Iterator[Harness]:
    clock, server = VirtualClock(NEW_YEAR), valkey.default_server()
    with valkey.prefix(server) as prefix:
        store = RedisStore(server.url(prefix, partitions=4), clock=clock)
        app = Stoker("memory:")
        app.sit_at(Desk(store, dice=lambda: 0.0))
        harness = Harness(app, clock)
        yield harness
        harness.close()
        store.close()


@pytest.fixture
def add(app: Stoker) -> Task[[int], int]:
    @app.task(name="add")
    def add(number: int) -> int:
        return number + 1

    return add


def test_the_first_call_of_a_period_counts(stoker: Harness, add: Task[[int], int]) -> None:
    once = [add.options(unique=name, once_per="10m") for name in PEOPLE]
    first = [task.enqueue(1) for task in once]
    assert stoker.drain() == len(PEOPLE)
    second = [task.enqueue(2) for task in once]
    assert [job.id for job in second] == [job.id for job in first]
    stoker.clock.advance("10m")
    assert all(task.enqueue(3).fresh for task in once)


def test_a_call_is_taken_in_though_only_its_note_was_written(
    stoker: Harness, add: Task[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wrote it died on the way to the job's own partition."""
    decide = Spread._decide

    def die_before_the_job(spread: Spread, home: int, change: Change) -> Receipt:
        if change.inserts:
            raise KeyboardInterrupt
        return decide(spread, home, change)

    once = [add.options(unique=name, once_per="10m") for name in PEOPLE]
    with monkeypatch.context() as patched:
        patched.setattr(Spread, "_decide", die_before_the_job)
        for task in once:
            with pytest.raises(KeyboardInterrupt):
                task.enqueue(1)
    assert all(task.enqueue(2).fresh for task in once)
    assert not any(task.enqueue(3).fresh for task in once)


def test_the_last_call_counts(stoker: Harness, add: Task[[int], int]) -> None:
    calm = [add.options(unique=name, debounce="5s") for name in PEOPLE]
    jobs = [task.enqueue(number) for task in calm for number in (1, 2)]
    stoker.clock.advance("5s")
    assert stoker.drain() == len(PEOPLE)
    assert {job.result for job in jobs} == {3}


def test_chains_and_groups_come_to_their_end(stoker: Harness, add: Task[[int], int]) -> None:
    chains = [chain(add.call(n), add.call(previous())).enqueue() for n in range(6)]
    groups = [group([add.call(n), add.call(2)]).enqueue() for n in range(6)]
    stoker.drain()
    assert [job.result for job in chains] == [2, 3, 4, 5, 6, 7]
    assert {job.result for job in groups} == {Summary(finished=2)}


def test_a_step_for_a_limited_queue_elsewhere_fails_its_chain_and_holds_nobody_up(
    stoker: Harness, app: Stoker, add: Task[[int], int]
) -> None:
    for name in PEOPLE:
        app.configure(name, capacity=1)
    steps = [add.options(queue=name) for name in PEOPLE]
    jobs = [chain(step.call(1), steps[0].call(2)).enqueue() for step in steps]
    stoker.drain()
    assert {job.state for job in jobs} == {State.FINISHED, State.FAILED}
    errors = [job.job.error for job in jobs if job.state is State.FAILED]
    assert all("cannot live in one partition" in (error or "") for error in errors)
