"""Taking calls in: one, many, from coroutines, and with options."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from stoker import Job, State, Stoker
from stoker.client.task import Task
from stoker.errors import BadInput, Duplicate
from stoker.kernel.window import parse_windows
from stoker.testing import Harness

SECOND = 1_000_000
WEST = timezone(timedelta(hours=-5))


@pytest.fixture
def add(app: Stoker) -> Task[[int, int], int]:
    @app.task(name="add", queue="sums")
    def add(a: int, b: int = 1) -> int:
        return a + b

    return add


Add = Task[[int, int], int]


def enqueued(stoker: Harness, task: Task[..., Any], *args: Any) -> Job:
    """The job of a call, as the store has it."""
    return task.enqueue(*args).job


# -- one call ------------------------------------------------------------------------------


def test_enqueuing_stores_a_job_with_the_arguments_by_name(stoker: Harness, add: Add) -> None:
    job = enqueued(stoker, add, 1, 2)
    assert (job.queue, job.name, job.payload) == ("sums", "add", b'{"a":1,"b":2}')
    assert (job.state, job.due_at) == (State.QUEUED, stoker.clock())


def test_a_default_is_left_to_the_function(stoker: Harness, add: Add) -> None:
    assert add.enqueue(a=1).job.payload == b'{"a":1}'  # type: ignore[call-arg]


def test_a_job_runs_and_its_handle_has_the_result(stoker: Harness, add: Add) -> None:
    job = add.enqueue(20, 22)
    assert stoker.drain() == 1
    assert job.result == 42


def test_a_coroutine_enqueues_without_blocking_its_loop(stoker: Harness, add: Add) -> None:
    async def main() -> list[int]:
        handles = await asyncio.gather(*(add.aenqueue(n, n) for n in range(20)))
        return sorted(handle.id for handle in handles)

    assert asyncio.run(main()) == [job.id for job in stoker.jobs(name=add)]
    assert len(stoker.jobs(name=add)) == 20


def test_a_coroutine_waits_for_a_result(stoker: Harness, add: Add) -> None:
    async def main() -> int:
        job = await add.aenqueue(1, 2)
        await stoker.drain_async()
        return await job.await_result(timeout="5s")

    assert asyncio.run(main()) == 3


# -- options -------------------------------------------------------------------------------


def test_a_delayed_job_runs_when_its_time_has_come(stoker: Harness, add: Add) -> None:
    job = add.options(delay="10m").enqueue(1, 2)
    stoker.clock.advance("9m59s")
    assert stoker.drain() == 0
    stoker.clock.advance("1s")
    assert stoker.drain() == 1
    assert job.state is State.FINISHED


@pytest.mark.parametrize("delay", ["90s", 90, 90.0, timedelta(seconds=90)])
def test_a_delay_is_text_a_number_of_seconds_or_a_timedelta(
    stoker: Harness, add: Add, delay: Any
) -> None:
    assert enqueued(stoker, add.options(delay=delay), 1).due_at == stoker.clock() + 90 * SECOND


def test_a_delay_counts_from_each_enqueuing(stoker: Harness, add: Add) -> None:
    later = add.options(delay="1m")
    first = enqueued(stoker, later, 1)
    stoker.clock.advance("1h")
    assert enqueued(stoker, later, 2).due_at - first.due_at == 3600 * SECOND


def test_a_moment_in_any_time_zone_is_one_moment(stoker: Harness, add: Add) -> None:
    job = add.options(at=datetime(2030, 1, 1, 7, 30, tzinfo=WEST)).enqueue(1, 2)
    assert job.due_at == datetime(2030, 1, 1, 12, 30, tzinfo=UTC)


def test_the_last_word_on_when_counts(stoker: Harness, add: Add) -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    assert add.options(delay="1m").options(at=noon).enqueue(1, 2).due_at == noon
    late = add.options(at=noon).options(delay="1m")
    assert enqueued(stoker, late, 1).due_at == stoker.clock() + 60 * SECOND


def test_lower_ranks_run_first(app: Stoker, stoker: Harness) -> None:
    order = []

    @app.task
    def note(rank: int) -> None:
        order.append(rank)

    for rank in (0, 7, -3):
        note.options(rank=rank).enqueue(rank)
    stoker.drain()
    assert order == [-3, 0, 7]


def test_the_plain_options_are_facts_of_the_job(stoker: Harness, add: Add) -> None:
    said = add.options(queue="other", key="ann", weight=0.5, ref="r-1", meta="from the web", rank=2)
    job = enqueued(stoker, said, 1)
    assert (job.queue, job.key, job.weight) == ("other", "ann", 500)
    assert (job.ref, job.meta, job.rank) == ("r-1", "from the web", 2)


def test_a_timeout_of_the_call_goes_before_that_of_the_task(stoker: Harness, app: Stoker) -> None:
    @app.task(timeout="1h", crash_limit=9)
    def slow() -> None: ...

    policy = slow.options(timeout="5s").enqueue().job.policy
    assert (policy.timeout, policy.crash_limit) == (5 * SECOND, 9)
    assert slow.enqueue().job.policy.timeout == 3600 * SECOND
    limitless = slow.options(timeout="5s").options(timeout=None)
    assert limitless.options(rank=1).enqueue().job.policy.timeout is None


def test_options_add_up_and_leave_the_task_as_it_was(stoker: Harness, add: Add) -> None:
    add.options(key="ann").options(rank=3)
    first = enqueued(stoker, add.options(key="ann").options(rank=3), 1)
    assert (first.key, first.rank) == ("ann", 3)
    second = enqueued(stoker, add, 1)
    assert (second.key, second.rank) == (None, 0)


def test_a_call_starts_in_windows_of_its_own(stoker: Harness, app: Stoker) -> None:
    started: list[tuple[str, int]] = []

    @app.task(windows="10:00-11:00")
    def visit(who: str) -> None:
        started.append((who, stoker.clock.now.hour))

    noon = visit.options(windows="12:00-13:00")
    visit.enqueue("at ten")
    noon.enqueue("at noon")
    noon.options(rank=1).enqueue("at noon, too")
    visit.options(windows=parse_windows("01:00-02:00")).enqueue("at one")
    visit.options(windows=None).enqueue("at once")
    noon.options(windows="always").enqueue("also at once")
    stoker.run_for("1d")
    assert started == [
        ("at once", 0),
        ("also at once", 0),
        ("at one", 1),
        ("at ten", 10),
        ("at noon", 12),
        ("at noon, too", 12),
    ]


def test_a_key_gets_no_more_than_its_places(stoker: Harness, app: Stoker, add: Add) -> None:
    app.configure("sums", key_capacity=1)
    for key in ("ann", "ann", "bob"):
        add.options(key=key).enqueue(1, 1)
    assert stoker.drain(until_idle=False) == 2
    assert [job.key for job in stoker.jobs(State.FINISHED)] == ["ann", "bob"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"colour": "red"}, "no option colour; there are queue, delay, at, rank, key"),
        ({"rank": "high"}, r"Expected `int \| null`, got `str` - at `\$.rank`"),
        ({"weight": "heavy"}, r"got `str` - at `\$.weight`"),
        ({"weight": 0.12345}, "finer than a thousandth"),
        ({"weight": -1}, "weight must be a number from 0 to 1,000,000,000, not -1"),
        ({"weight": 2**31}, "weight must be a number from 0 to 1,000,000,000"),
        ({"rank": 2**63}, "rank must be a whole number from"),
        ({"delay": float("inf")}, "cannot read the duration inf"),
        ({"meta": {"a": 1}}, r"got `object` - at `\$.meta`"),
        ({"key": 7}, r"got `int` - at `\$.key`"),
        ({"queue": 7}, r"got `int` - at `\$.queue`"),
        ({"unique": 7}, r"got `int` - at `\$.unique`"),
        ({"if_exists": "panic"}, "if_exists must be one of reject, return, update, not 'panic'"),
        ({"delay": "soon"}, "cannot read the duration 'soon'"),
        ({"delay": -1}, "the duration -1 is negative"),
        ({"queue": ""}, "queue cannot be empty; give a text, or leave it out altogether"),
        ({"key": ""}, "key cannot be empty"),
        ({"unique": ""}, "unique cannot be empty"),
        ({"ref": ""}, "ref cannot be empty"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"windows": "noon"}, 'cannot read "noon" in the windows'),
        ({"windows": ""}, 'no times given: write windows like "mon-fri 05:00-07:00'),
        ({"windows": 5}, "windows are a text like .*, or Windows, not 5"),
        ({"at": datetime(2030, 1, 1)}, "at= needs a datetime with a time zone"),  # noqa: DTZ001
        ({"at": "2030-01-01T00:00Z"}, "at= needs a datetime with a time zone"),
        ({"at": 1_900_000_000}, "at= needs a datetime with a time zone"),
        (
            {"at": datetime(2030, 1, 1, tzinfo=UTC), "delay": "1s"},
            "delay= and at= both say when; give one of them",
        ),
    ],
    ids=lambda value: " and ".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_option_is_refused_and_nothing_is_enqueued(
    stoker: Harness, add: Add, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        add.options(**options).enqueue(1, 2)
    assert stoker.jobs() == []


# -- unique jobs ---------------------------------------------------------------------------


def test_a_unique_job_stands_for_those_that_come_after_it(stoker: Harness, add: Add) -> None:
    unique = add.options(unique="a")
    first, second = unique.enqueue(1, 1), unique.enqueue(2, 2)
    assert (first.fresh, second.fresh) == (True, False)
    assert (second.id, second.job.payload) == (first.id, b'{"a":1,"b":1}')


def test_a_twin_can_be_refused(stoker: Harness, add: Add) -> None:
    unique = add.options(unique="a", if_exists="reject")
    first = unique.enqueue(1, 1)
    with pytest.raises(Duplicate) as caught:
        unique.enqueue(2, 2)
    assert caught.value.existing_id == first.id


def test_a_twin_can_update_the_job_that_is_there(stoker: Harness, add: Add) -> None:
    first = add.options(unique="a").enqueue(1, 1)
    second = add.options(unique="a", if_exists="update", rank=5).enqueue(2, 2)
    assert (second.id, second.fresh) == (first.id, False)
    assert (first.job.payload, first.job.rank) == (b'{"a":2,"b":2}', 5)


def test_a_unique_name_is_free_again_when_its_job_has_ended(stoker: Harness, add: Add) -> None:
    first = add.options(unique="a").enqueue(1, 1)
    stoker.drain()
    second = add.options(unique="a").enqueue(2, 2)
    assert second.fresh and second.id != first.id


def test_tasks_do_not_share_their_unique_names(stoker: Harness, app: Stoker, add: Add) -> None:
    @app.task
    def other() -> None: ...

    add.options(unique="a").enqueue(1, 1)
    assert other.options(unique="a").enqueue().fresh


def test_names_that_look_alike_when_joined_are_not_the_same(stoker: Harness, app: Stoker) -> None:
    pairs = [("shop", "mail:ann"), ("shop:mail", "ann"), ("shop%3Amail", "ann")]
    tasks = {name: app.task(name=name)(lambda: None) for name, _ in pairs}
    jobs = [tasks[name].options(unique=word).enqueue() for name, word in pairs]
    assert all(job.fresh for job in jobs)
    assert jobs[0].job.unique_key == "shop:mail:ann"


def test_a_ref_makes_enqueuing_again_harmless_even_afterwards(stoker: Harness, add: Add) -> None:
    first = add.options(ref="order 7").enqueue(1, 1)
    stoker.drain()
    again = add.options(ref="order 7").enqueue(1, 1)
    assert (again.id, again.fresh, again.result) == (first.id, False, 2)


# -- many calls ----------------------------------------------------------------------------


def test_many_calls_are_taken_in_at_once_and_in_order(
    stoker: Harness, app: Stoker, add: Add
) -> None:
    @app.task
    def greet(name: str) -> str:
        return f"hello {name}"

    first, second, third = app.enqueue_many(
        [add.call(1, 2), greet.call("ann"), add.options(rank=-1).call(3, 4)]
    )
    assert first.id < second.id < third.id
    stoker.drain()
    assert [first.result, second.result, third.result] == [3, "hello ann", 7]


def test_calls_may_come_one_by_one(stoker: Harness, app: Stoker, add: Add) -> None:
    assert len(app.enqueue_many(add.call(n, n) for n in range(3))) == 3
    assert len(asyncio.run(app.aenqueue_many(add.call(n, n) for n in range(3)))) == 3
    assert len(stoker.jobs()) == 6
    alone: Any = add.call(1, 1)
    with pytest.raises(BadInput, match="enqueue_many takes a list of calls, not Call"):
        app.enqueue_many(alone)


def test_no_calls_are_no_jobs(stoker: Harness, app: Stoker) -> None:
    assert app.enqueue_many([]) == []


def test_many_calls_are_all_taken_in_or_none(stoker: Harness, app: Stoker, add: Add) -> None:
    add.options(unique="a").enqueue(0, 0)
    strict = add.options(if_exists="reject")
    calls = [strict.call(1, 1), strict.options(unique="a").call(2, 2), strict.call(3, 3)]
    with pytest.raises(Duplicate):
        app.enqueue_many(calls)
    assert [job.payload for job in stoker.jobs()] == [b'{"a":0,"b":0}']


def test_twins_among_many_calls_become_one_job(stoker: Harness, app: Stoker, add: Add) -> None:
    unique = add.options(unique="a")
    first, second = app.enqueue_many([unique.call(1, 1), unique.call(2, 2)])
    assert (first.fresh, second.fresh, second.id) == (True, False, first.id)
    assert len(stoker.jobs()) == 1


def test_many_calls_must_agree_about_twins(stoker: Harness, app: Stoker, add: Add) -> None:
    calls = [add.options(if_exists="reject").call(1, 1), add.options(if_exists="update").call(1, 1)]
    with pytest.raises(BadInput, match="must have the same if_exists"):
        app.enqueue_many(calls)
    assert stoker.jobs() == []


def test_results_are_not_taken_for_calls(app: Stoker) -> None:
    double = app.task(name="double")(lambda number: 2 * number)
    results: Any = [double(1), double(2)]
    with pytest.raises(BadInput, match=r"takes calls, made with task\.call\(\.\.\.\)"):
        app.enqueue_many(results)


def test_a_name_alone_is_no_list_of_queues(app: Stoker) -> None:
    with pytest.raises(BadInput, match=r"write queues=\['default'\]"):
        app.worker(queues="default")
