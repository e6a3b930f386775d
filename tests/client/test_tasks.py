"""Making tasks of functions."""

from __future__ import annotations

import asyncio
import functools
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, assert_type

import pytest

from stoker import (
    Context,
    JobHandle,
    OnLost,
    Policy,
    Stoker,
    Task,
    by_error,
    custom,
    exponential,
    fixed,
    never,
)
from stoker import parse_windows as windows
from stoker.errors import BadInput
from stoker.kernel.policy import DAY
from stoker.kernel.retry import Custom, RetryPolicy

SECOND = 1_000_000
BY_ERROR = by_error({OSError: fixed("1s")}, otherwise=never())


def double(number: int) -> int:
    """Twice as much."""
    return 2 * number


def nothing() -> None:
    """Do nothing."""


@pytest.fixture
def app() -> Stoker:
    return Stoker("memory:")


def policy_of(task: Task[[], Any]) -> Policy:
    return task.call().job.policy


# -- the decorator -------------------------------------------------------------------------


def test_a_bare_decorator_makes_a_task_named_after_its_function(app: Stoker) -> None:
    task = app.task(double)
    assert task.name == f"{__name__}.double"
    assert task.call(1).job.queue == "default"


def test_a_decorator_with_options_makes_a_task_too(app: Stoker) -> None:
    task = app.task(name="twice", queue="numbers")(double)
    job = task.call(1).job
    assert (task.name, job.name, job.queue) == ("twice", "twice", "numbers")


def test_calling_a_task_runs_its_function_here_and_now(app: Stoker) -> None:
    assert app.task(double)(21) == 42


def test_calling_an_async_task_gives_a_coroutine_to_await(app: Stoker) -> None:
    @app.task
    async def triple(number: int) -> int:
        await asyncio.sleep(0)
        return 3 * number

    async def main() -> int:
        return await triple(14)

    assert asyncio.run(main()) == 42


def test_a_type_checker_sees_through_tasks_and_handles(app: Stoker) -> None:
    @app.task
    async def triple(number: int) -> int:
        return 3 * number

    @app.task(queue="numbers")
    def show(ctx: Context, number: int) -> str:
        return str(number)

    assert_type(app.task(double)(1), int)
    handles = app.task(double).enqueue(1), triple.enqueue(2), show.options(rank=1).enqueue(3)
    assert_type(handles, tuple[JobHandle[int], JobHandle[int], JobHandle[str]])
    assert [handle.job.payload for handle in handles] == [b'{"number":%d}' % n for n in (1, 2, 3)]


def test_a_task_keeps_docstring_and_signature_of_its_function(app: Stoker) -> None:
    task = app.task(queue="numbers")(double)
    assert task.__doc__ == "Twice as much."
    assert str(inspect.signature(task)) == "(number: 'int') -> 'int'"
    assert repr(task) == f"<Task {__name__}.double on queue numbers>"


def test_one_decorator_serves_several_functions(app: Stoker) -> None:
    mail = app.task(queue="mail", retry=fixed("1s"), timeout="5s")
    jobs = [mail(double).call(1).job, mail(nothing).call().job]
    assert [job.queue for job in jobs] == ["mail", "mail"]
    assert {job.policy for job in jobs} == {Policy(retry=fixed("1s"), timeout=5 * SECOND)}


def test_a_task_is_found_by_its_name(app: Stoker) -> None:
    task = app.task(name="twice")(double)
    assert app["twice"] is task


def test_a_name_nobody_knows_is_refused_with_those_that_are_known(app: Stoker) -> None:
    with pytest.raises(BadInput, match="no task is called 'x'; known: none"):
        app["x"]
    app.task(name="twice")(double)
    app.task(name="naught")(nothing)
    with pytest.raises(BadInput, match="no task is called 'x'; known: naught, twice"):
        app["x"]


def test_two_functions_cannot_share_a_name(app: Stoker) -> None:
    app.task(name="twice")(double)
    with pytest.raises(BadInput, match="two tasks called 'twice'; give one a name="):
        app.task(name="twice")(nothing)


def test_making_the_same_function_a_task_again_changes_its_options(app: Stoker) -> None:
    app.task(name="twice")(double)
    app.task(name="twice", queue="numbers")(double)
    assert app["twice"].call(1).job.queue == "numbers"


@pytest.mark.parametrize("thing", ["mail", functools.partial(double, 1), 7])
def test_a_task_is_made_of_a_function_only(app: Stoker, thing: Any) -> None:
    with pytest.raises(BadInput, match="a task is made of a function, not of"):
        app.task(thing)


def test_a_task_is_not_made_a_task_again(app: Stoker) -> None:
    with pytest.raises(BadInput, match="a task is made of a function, not of <Task"):
        app.task(app.task(double))


# -- what becomes of its jobs --------------------------------------------------------------


def test_a_job_of_a_plain_task_has_the_plain_policy(app: Stoker) -> None:
    assert policy_of(app.task(nothing)) == Policy(timeout=DAY, retry=never())


def test_all_options_reach_the_policy(app: Stoker) -> None:
    task = app.task(
        retry=exponential(5),
        timeout="90s",
        on_lost="fail",
        crash_limit=7,
        windows="08:00-17:00",
    )(nothing)
    assert policy_of(task) == Policy(
        timeout=90 * SECOND,
        on_lost=OnLost.FAIL,
        crash_limit=7,
        retry=exponential(5),
        windows=windows("08:00-17:00"),
    )


def test_no_limit_can_be_said(app: Stoker) -> None:
    policy = policy_of(app.task(timeout=None, crash_limit=None)(nothing))
    assert (policy.timeout, policy.crash_limit) == (None, None)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("fixed 10s x3", fixed("10s", limit=3)),
        (fixed("10s", limit=3), fixed("10s", limit=3)),
        (BY_ERROR, BY_ERROR),
        (None, never()),
    ],
    ids=["text", "policy", "by error", "nothing"],
)
def test_a_retry_policy_is_given_as_a_value_or_as_text(
    app: Stoker, said: RetryPolicy | str | None, meant: RetryPolicy
) -> None:
    assert policy_of(app.task(retry=said)(nothing)).retry == meant


def test_a_retry_handler_is_given_as_a_callable_and_known_by_the_tasks_name(app: Stoker) -> None:
    task = app.task(name="nothing", retry=lambda job, failure: None)(nothing)
    assert policy_of(task).retry == Custom("nothing")


# -- wrong options -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"colour": "red"}, r"a task has no option colour \(see '.*nothing'\); there are name, "),
        ({"place": "moon"}, "place= must be one of 'loop', 'thread', 'process', not 'moon'"),
        ({"on_lost": "cry"}, "on_lost= must be one of 'requeue', 'retry', 'fail', 'stay'"),
        ({"retry": 5}, "retry= takes a policy such as exponential"),
        ({"retry": custom("patient")}, "retry= takes your retry handler itself"),
        ({"retry": "sometimes"}, "sometimes"),
        ({"timeout": "soon"}, "cannot read the duration 'soon'"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"crash_limit": 0}, "crash_limit .* must be a whole number from 1 to"),
        ({"crash_limit": "3"}, "crash_limit .* must be a whole number from 1 to .* not '3'"),
        ({"limit": 10**30}, r"tasks\[.*\] must be a number from 0 to 1,000,000,000"),
        ({"rate": "10000000000/s"}, "the amount of a rate must be a number from 0 to"),
        ({"queue": 5}, "queue must be text, not int"),
        ({"name": 5}, "the name of a task must be text, not int"),
        ({"name": ""}, "the name of a task cannot be empty"),
        ({"queue": ""}, "queue cannot be empty"),
        ({"repeat": "now and then"}, "cannot read the repeat"),
        ({"windows": "noon"}, "noon"),
        ({"place": "loop"}, "is not async and cannot run in place='loop'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_option_is_refused_when_the_task_is_made(
    app: Stoker, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        app.task(**options)(nothing)


def test_a_builtin_without_a_signature_is_refused(app: Stoker) -> None:
    with pytest.raises(BadInput, match="wrap it in a function of your own"):
        app.task(name="most")(max)


def test_a_script_that_is_started_itself_has_the_names_by_which_others_import_it(
    tmp_path: Path,
) -> None:
    script = tmp_path / "shop.py"
    script.write_text(
        "from stoker import Stoker\n"
        "app = Stoker('memory:')\n"
        "@app.task\n"
        "def sell() -> None: ...\n"
        "if __name__ == '__main__':\n"
        "    print(sell.name)\n",
        encoding="utf-8",
    )
    for command in ([str(script)], ["-m", "shop"], ["-c", "import shop; print(shop.sell.name)"]):
        ran = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert ran.stdout == "shop.sell\n"


@pytest.mark.parametrize("place", ["thread", "process"])
def test_an_async_function_runs_on_the_loop_only(app: Stoker, place: str) -> None:
    async def wait() -> None: ...

    with pytest.raises(BadInput, match=f"is async and cannot run in place='{place}'"):
        app.task(place=place)(wait)
