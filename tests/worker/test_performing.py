"""One handler and its outcome: what the worker as a whole cannot be made to show."""

from __future__ import annotations

import asyncio

import pytest

from stoker import Context, Job, Stoker, current
from stoker.errors import StokerError
from stoker.kernel.outcome import Failed, Finished, Outcome, Released
from stoker.kernel.retry import GiveUp
from stoker.worker.context import StopReason
from stoker.worker.performing import Performer
from stoker.worker.tasks import Definition


def perform(ran: list[str], stop: StopReason, *, on_loop: bool) -> Outcome | None:
    """A handler that was stopped while its job waited for a runner."""
    desk = Stoker("memory:").desk
    performer = Performer(desk.store.now)
    context = Context(Job("q", "work"), desk)
    context.stop(stop)
    if not on_loop:
        return performer.run(
            Definition(lambda: ran.append("sync"), name="work", queue="q"), context
        )

    async def work() -> None:
        ran.append("async")

    return asyncio.run(performer.run_async(Definition(work, name="work", queue="q"), context))


@pytest.mark.parametrize("on_loop", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (StopReason.CANCELLED, Failed),
        (StopReason.TIMEOUT, Failed),
        (StopReason.SHUTDOWN, Released),
        (StopReason.LOST, type(None)),
    ],
)
def test_a_job_that_is_stopped_before_it_begins_never_begins(
    reason: StopReason, kind: type, on_loop: bool
) -> None:
    ran: list[str] = []
    outcome = perform(ran, reason, on_loop=on_loop)
    assert type(outcome) is kind
    assert ran == []


def test_the_first_reason_to_stop_counts() -> None:
    context = Context(Job("q"), Stoker("memory:").desk)
    context.stop(StopReason.TIMEOUT)
    context.stop(StopReason.SHUTDOWN)
    assert context.stop_reason is StopReason.TIMEOUT


def test_a_very_long_error_is_kept_by_its_end() -> None:
    def work() -> None:
        raise ValueError("x" * 20_000 + "the end")

    desk = Stoker("memory:").desk
    task = Definition(work, name="work", queue="q")
    outcome = Performer(desk.store.now).run(task, Context(Job("q", payload=b"{}"), desk))
    assert isinstance(outcome, Failed)
    assert outcome.failure.message.endswith("the end\n")


def test_an_endless_result_is_given_up() -> None:
    def work() -> object:
        endless: list[object] = []
        endless.append(endless)
        return endless

    desk = Stoker("memory:").desk
    task = Definition(work, name="work", queue="q")
    outcome = Performer(desk.store.now).run(task, Context(Job("q", payload=b"{}"), desk))
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.verdict, GiveUp)
    assert "its result cannot be kept as JSON" in str(outcome.verdict.reason)


def test_a_context_is_there_no_longer_than_its_handler() -> None:
    desk = Stoker("memory:").desk
    task = Definition(lambda: current().job.id, name="work", queue="q")
    outcome = Performer(desk.store.now).run(task, Context(Job("q", payload=b"{}", id=7), desk))
    assert outcome == Finished(b"7")
    with pytest.raises(StokerError, match="no job runs here"):
        current()


def test_no_result_is_kept_as_none_at_all() -> None:
    desk = Stoker("memory:").desk
    task = Definition(lambda: None, name="work", queue="q")
    outcome = Performer(desk.store.now).run(task, Context(Job("q", payload=b"{}"), desk))
    assert outcome == Finished(None)
