"""Chains, groups and maps: jobs that belong together, on every engine."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from stoker import (
    Job,
    JobFailed,
    Policy,
    State,
    Stoker,
    Summary,
    Task,
    chain,
    current,
    fixed,
    group,
    previous,
)
from stoker.desk import Desk, children
from stoker.errors import BadInput, StoreUnavailable
from stoker.kernel import family
from stoker.kernel.flow import step_of
from stoker.store import Filter
from stoker.store.paging import every
from stoker.testing import Harness

OFTEN = Job("q", "often", policy=Policy(repeat="every 5m"))


@pytest.fixture
def double(app: Stoker) -> Task[[int], int]:
    @app.task(name="double")
    def double(number: int) -> int:
        if number == 13:
            raise ValueError("13 is unlucky")
        return 2 * number

    return double


@pytest.fixture
def told(app: Stoker) -> Task[[str], str]:
    """What is told of a group, in the words of whoever follows it."""

    @app.task(name="told", queue="news")
    def told(word: str) -> str:
        them = current().children
        counts, results = them.summary, list(them.results(int))
        lost = [job.payload.decode() for job in them.jobs(State.FAILED, State.CANCELLED)]
        return f"{word}: {counts.finished}+{counts.failed}+{counts.cancelled} {results} {lost}"

    return told


def kept(app: Stoker) -> dict[int, tuple[str, State]]:
    """All jobs by id."""
    return {job.id: (job.name, job.state) for job in app.desk.store.find(Filter())}


# -- chains --------------------------------------------------------------------------------


def test_each_step_of_a_chain_takes_the_result_of_the_one_before(
    stoker: Harness, double: Task[[int], int]
) -> None:
    by_name = double.call(number=previous())  # type: ignore[call-arg]
    job = chain(double.call(1), double.call(previous()), by_name).enqueue()
    assert (job.state, job.children.summary) == (State.WAITING, Summary(pending=1))
    assert stoker.drain() == 3
    assert (job.state, job.result) == (State.FINISHED, 8)
    assert [child.payload for child in job.children.jobs()] == [
        b'{"number":1}',
        b'{"number":2}',
        b'{"number":4}',
    ]


def test_a_step_is_made_only_when_the_one_before_has_finished(
    stoker: Harness, app: Stoker, double: Task[[int], int]
) -> None:
    job = chain(double.call(1), double.call(2)).enqueue()
    assert kept(app) == {
        job.id: ("stoker.chain", State.WAITING),
        job.id + 1: ("double", State.QUEUED),
    }
    stoker.drain(until_idle=False)
    assert [child.state for child in job.children.jobs()] == [State.FINISHED, State.QUEUED]
    stoker.drain()
    assert job.result == 4


def test_a_chain_stops_at_a_step_that_fails_and_says_so(
    stoker: Harness, double: Task[[int], int]
) -> None:
    job = chain(double.call(1), double.call(13), double.call(3)).enqueue()
    assert stoker.drain() == 2
    with pytest.raises(JobFailed) as error:
        job.wait(timeout="10s")
    failed = job.id + 2
    said = f"step 2 of 3, job {failed} (double), failed: ValueError: 13 is unlucky"
    assert (error.value.job.error, job.children.summary) == (said, Summary(1, 1))


def test_a_step_that_is_tried_again_does_not_fail_its_chain(stoker: Harness, app: Stoker) -> None:
    @app.task(retry=fixed("1m", limit=2))
    def stubborn() -> int:
        if current().attempt < 3:
            raise ConnectionError("not yet")
        return current().attempt

    job = chain(stubborn.call(), stubborn.call()).enqueue()
    assert stoker.run_for("10m") == 6
    assert job.result == 3


def test_a_chain_whose_step_is_cancelled_or_deleted_has_failed(
    stoker: Harness, app: Stoker, double: Task[[int], int]
) -> None:
    one, two = (chain(double.call(1), double.call(2)).enqueue() for _ in range(2))
    app.job(one.id + 1).cancel()
    app.job(two.id + 1).delete()
    assert stoker.drain() == 0
    assert one.job.error == f"step 1 of 2, job {one.id + 1} (double), was cancelled"
    assert two.job.error == "step 1 of 2, of which nothing is kept, did not finish"
    assert (one.state, two.state) == (State.FAILED, State.FAILED)


def test_no_further_step_is_made_for_a_chain_that_was_cancelled(
    stoker: Harness, double: Task[[int], int]
) -> None:
    job = chain(double.call(1), double.call(2)).enqueue()
    assert job.cancel() is State.CANCELLED
    assert stoker.drain() == 1
    assert (job.state, len(list(job.children.jobs()))) == (State.CANCELLED, 1)


def test_a_chain_that_is_tried_again_goes_on_with_the_step_that_failed(
    stoker: Harness, app: Stoker
) -> None:
    weather = ["bad"]

    @app.task
    def sail(miles: int) -> int:
        if miles > 1 and weather == ["bad"]:
            raise OSError("a storm")
        return miles + 1

    job = chain(sail.call(1), sail.call(previous()), sail.call(previous())).enqueue()
    assert (stoker.drain(), job.state) == (2, State.FAILED)
    weather[:] = ["good"]
    job.retry()
    assert (stoker.drain(), job.result) == (2, 4)


def test_the_delay_of_a_step_counts_from_the_step_before(
    stoker: Harness, double: Task[[int], int]
) -> None:
    job = chain(double.call(1), double.options(delay="1h").call(previous())).enqueue()
    stoker.clock.advance("30m")
    assert stoker.drain() == 1
    stoker.clock.advance("59m")
    assert stoker.drain() == 0
    stoker.clock.advance("1m")
    assert (stoker.drain(), job.result) == (1, 4)


def test_a_result_is_passed_on_also_where_finished_jobs_are_not_kept(
    stoker: Harness, app: Stoker, double: Task[[int], int]
) -> None:
    app.configure("default", retention={"finished": 0, "failed": 0})
    last = double.options(queue="kept")
    job = chain(last.call(1), double.call(previous()), last.call(previous())).enqueue()
    assert (stoker.drain(), job.result) == (3, 8)


def test_a_result_that_does_not_fit_the_next_step_fails_it(
    stoker: Harness, app: Stoker, double: Task[[int], int]
) -> None:
    @app.task
    def name() -> str:
        return "ann"

    job = chain(name.call(), double.call(previous())).enqueue()
    assert stoker.drain() == 2
    assert "step 2 of 2" in (job.job.error or "")
    assert "do not fit the task 'double': Expected `int`, got `str`" in (job.job.error or "")


def test_a_chain_can_be_enqueued_from_async_code(stoker: Harness, double: Task[[int], int]) -> None:
    job = asyncio.run(chain(double.call(1), double.call(previous())).aenqueue())
    stoker.drain()
    assert job.result == 4


def test_what_cannot_be_a_chain_is_refused(app: Stoker, double: Task[[int], int]) -> None:
    @app.task
    def pair(a: int, b: int) -> int:
        return a + b

    @app.task(raw=True)
    def raw(content: bytes) -> None: ...

    with pytest.raises(BadInput, match="a name of Stoker's own"):
        app.task(name="stoker.chain")(lambda: None)
    elsewhere = Stoker("memory:").task(lambda: None)
    for wrong, words in [
        (chain, "at least one step"),
        (lambda: chain(double(1)), "made of calls"),  # type: ignore[arg-type]
        (lambda: chain(double.call(previous())).enqueue(), "none before it"),
        (lambda: app.desk.flows.chain([step_of(OFTEN)]), "repeats"),
        (lambda: chain(double.options(unique="x").call(1)).enqueue(), "unique key or reference"),
        (lambda: chain(double.options(unique="x", once_per=1).call(1)).enqueue(), "by itself"),
        (lambda: pair.call(previous(), previous()), "here are 2"),
        (
            lambda: pair.call(previous(), "b"),  # type: ignore[arg-type]
            "'b' does not fit the task .* got `str`",
        ),
        (lambda: pair.call([previous()], 1), "cannot travel as JSON"),  # type: ignore[arg-type]
        (lambda: raw.call(previous()), "raw task"),
        (lambda: double.enqueue(previous()), "use it in chain"),
        (lambda: group([double.call(previous())]).enqueue(), "use it in chain"),
        (lambda: chain(double.call(1), elsewhere.call()), "different apps"),
    ]:
        with pytest.raises(BadInput, match=words):
            wrong()  # type: ignore[no-untyped-call]
    assert kept(app) == {}


# -- groups --------------------------------------------------------------------------------


def test_what_follows_a_group_runs_when_all_have_ended_however_they_ended(
    stoker: Harness, app: Stoker, double: Task[[int], int], told: Task[[str], str]
) -> None:
    job = group([double.call(n) for n in (1, 13, 2, 3)], then=told.call("so")).enqueue()
    app.job(job.id + 4).cancel()
    assert job.state is State.WAITING
    stoker.drain()
    assert job.result == """so: 2+1+1 [2, 4] ['{"number":13}', '{"number":3}']"""


def test_what_follows_runs_also_if_all_failed_and_is_tried_again_by_its_own_policy(
    stoker: Harness, app: Stoker, double: Task[[int], int]
) -> None:
    @app.task(retry=fixed("1s", limit=1))
    def count() -> int:
        if current().attempt == 1:
            raise OSError("not now")
        return current().children.summary.failed

    job = group([double.call(13), double.call(13)], then=count.call()).enqueue()
    stoker.run_for("1m")
    assert job.result == 2


def test_a_group_without_a_follower_just_counts(
    stoker: Harness, double: Task[[int], int], told: Task[[str], str]
) -> None:
    job = group([double.call(1), double.call(13), told.call("other")]).enqueue()
    stoker.drain()
    assert (job.wait(timeout="10s"), job.result.total) == (Summary(2, 1), 3)


def test_a_group_of_nothing_is_over_at_once(
    stoker: Harness, app: Stoker, told: Task[[str], str]
) -> None:
    with_follower = group([], then=told.call("none")).enqueue()
    assert (stoker.drain(), with_follower.result) == (1, "none: 0+0+0 [] []")
    assert app.map(told, []).result == Summary()
    with pytest.raises(BadInput, match="needs a then="):
        group([])


def test_one_job_for_each_item_and_one_summary(
    stoker: Harness,
    app: Stoker,
    double: Task[[int], int],
    told: Task[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, "every", partial(every, at_once=4))
    job = app.map(double, range(20), then=told.call("all"))
    assert stoker.drain() == 21
    assert job.children.summary == Summary(19, 1)
    assert [*job.children.results(int)] == [2 * n for n in range(20) if n != 13]
    assert job.result.startswith("all: 19+1+0 [0, 2, 4,")


def test_a_map_needs_a_task_and_many_items(app: Stoker, double: Task[[int], int]) -> None:
    plain: Any = abs
    with pytest.raises(BadInput, match="map takes a task, which"):
        app.map(plain, [1])
    one: Any = 5
    with pytest.raises(BadInput, match="and 5 is not many"):
        app.map(double, one)


def test_a_group_is_taken_in_as_a_whole_or_not_at_all(
    app: Stoker, double: Task[[int], int], told: Task[[str], str]
) -> None:
    once = double.options(ref="r")
    for calls, then in [
        ([double.call(1), once.call(2)], told.call("x")),
        ([double.call(1)], told.options(unique="u").call("x")),
    ]:
        with pytest.raises(BadInput, match="reference"):
            group(calls, then=then).enqueue()
    for jobs, last in [([Job("q"), OFTEN], None), ([Job("q")], OFTEN)]:
        with pytest.raises(BadInput, match="repeat"):
            app.desk.flows.gather(jobs, last)
    assert kept(app) == {}


def test_a_task_that_repeats_runs_once_where_it_is_called(
    stoker: Harness, app: Stoker, double: Task[[int], int]
) -> None:
    @app.task(repeat="every 5m")
    def often() -> int:
        return 4

    job = chain(often.call(), double.call(previous())).enqueue()
    assert (stoker.drain(), job.result) == (2, 8)
    group([double.call(1), often.call()], then=often.call()).enqueue()
    assert stoker.run_for("1h") == 3


def test_chains_groups_maps_and_children_are_no_part_of_a_transaction(
    stoker: Harness, app: Stoker, double: Task[[int], int]
) -> None:
    within = double.within(object())

    @app.task(name="parent")
    def parent() -> None:
        with pytest.raises(BadInput, match="children cannot be part of a transaction"):
            current().spawn([within.call(1)])

    for wrong in [
        lambda: chain(double.call(1), within.call(2)).enqueue(),
        lambda: group([within.call(1)]).enqueue(),
        lambda: group([double.call(1)], then=within.call(2)).enqueue(),
        lambda: app.map(within, [1, 2]),
    ]:
        with pytest.raises(BadInput, match="let it enqueue one task whose handler enqueues the"):
            wrong()  # type: ignore[no-untyped-call]
    assert kept(app) == {}
    job = parent.enqueue()
    assert (stoker.drain(), job.state) == (1, State.FINISHED)


# -- a crash at any moment -----------------------------------------------------------------


def test_nothing_is_left_of_a_group_whose_maker_died_half_way(
    stoker: Harness,
    app: Stoker,
    double: Task[[int], int],
    told: Task[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(family, "gather", die)
        with pytest.raises(KeyboardInterrupt):
            app.map(double, [1, 2], then=told.call("x"))
    assert stoker.drain() == 0
    assert stoker.run_for("2m") == 0
    assert kept(app) == {}


def test_a_chain_goes_on_though_whoever_ended_its_step_died_right_after(
    stoker: Harness, app: Stoker, double: Task[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk: Desk = app.desk
    with monkeypatch.context() as patched:
        patched.setattr(desk.clerk, "resume", lambda _: 0)
        job = chain(double.call(1), double.call(previous())).enqueue()
        counted = group([double.call(1)]).enqueue()
        assert [*job.children.jobs()] == []
        for step in desk.dispatch.claim(["default"]):
            desk.report.finish(step)
    stoker.drain()
    assert (job.result, counted.result) == (4, Summary(1))


def test_a_step_that_cannot_be_taken_in_fails_its_chain_and_nobody_elses_work(
    stoker: Harness, app: Stoker, double: Task[[int], int]
) -> None:
    job = chain(double.call(1), double.call(2)).enqueue()
    app.desk.control.edit(job.id, {"payload": b"[1]"})
    other = double.enqueue(5)
    stoker.drain()
    assert (other.result, job.state) == (10, State.FAILED)
    assert (job.job.error or "").startswith("step 2 cannot be taken in: the steps of the chain")


def test_a_store_in_trouble_does_not_fail_a_chain(
    stoker: Harness, app: Stoker, double: Task[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("the cable is out")

    job = chain(double.call(1), double.call(2)).enqueue()
    with monkeypatch.context() as patched:
        patched.setattr(app.desk.clerk, "_advance", away)
        with pytest.raises(StoreUnavailable):
            stoker.drain()
    stoker.drain()
    assert job.result == 4
