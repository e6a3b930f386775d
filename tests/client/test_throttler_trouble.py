"""Throttlers that fail, that are overtaken, and those who have none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from stoker import Desk, Job, State, Stoker, Throttle, parse_windows
from stoker.desk.blocker import Reason
from stoker.desk.throttle_memory import Memory, recall
from stoker.errors import BadInput
from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.policy import Policy
from stoker.kernel.zones import END
from stoker.testing import Harness
from tests.client.throttling import add_fetch, enqueue, per_key, start


@pytest.fixture(autouse=True)
def _fetch(app: Stoker) -> None:
    add_fetch(app)


def _broken(throttle: Throttle) -> None:
    throttle.admit(throttle.candidates[0])
    raise ZeroDivisionError("no such share")


def _unjson(throttle: Throttle) -> None:
    throttle.state = {1, object()}


def _presumptuous(throttle: Throttle) -> None:
    throttle.admit(Job("api", id=10**9))


def _unreasonable(throttle: Throttle) -> None:
    throttle.refuse(throttle.candidates[0], "")


def _timeless(throttle: Throttle) -> None:
    throttle.defer(throttle.candidates[0], "soon")  # type: ignore[arg-type]


class _Mute(BaseException):
    def __str__(self) -> str:
        raise LookupError


def _off_for_ever(throttle: Throttle) -> None:
    throttle.defer(throttle.candidates[0], END - 1)


def _says(reason: Any) -> Callable[[Throttle], None]:
    return lambda throttle: throttle.hold(throttle.candidates[0], reason)


def _raises(error: BaseException) -> Callable[[Throttle], None]:
    def raising(throttle: Throttle) -> None:
        raise error

    return raising


@pytest.mark.parametrize(
    ("throttler", "complaint"),
    [
        (_broken, "ZeroDivisionError: no such share"),
        (_unjson, "BadInput: the state of a throttler must be what JSON can hold"),
        (_presumptuous, "BadInput: job 1000000000 is no candidate"),
        (_unreasonable, "BadInput: a job is refused for a reason"),
        (_timeless, "BadInput: a job is put off to a datetime or to UTC microseconds, not to "),
        (_off_for_ever, "BadInput: the moment 253370764800000000 (µs) lies outside"),
        (_says(7), "BadInput: the reason that a throttler gives must be text, not int"),
        (_says(None), "the reason that a throttler gives must be text, not NoneType"),
        (_says("\ud800"), "the reason that a throttler gives holds half a character"),
        (lambda t: t.defer(t.candidates[0], 1, 7), "gives must be text, not int"),
        (lambda t: t.refuse(t.candidates[0], []), "gives must be text, not list"),
        (_raises(OSError("no \udcff there")), "OSError: no \\udcff there"),
        (_raises(asyncio.CancelledError()), "CancelledError: "),
        (_raises(SystemExit(3)), "SystemExit: 3"),
        (_raises(_Mute()), "_Mute: an error that cannot be shown"),
    ],
)
def test_a_throttler_that_fails_is_shown_and_harms_nothing(
    app: Stoker, stoker: Harness, throttler: Callable[[Throttle], None], complaint: str
) -> None:
    broken = [True]

    @app.throttler("api")
    def sometimes(throttle: Throttle) -> None:
        if broken:
            throttler(throttle)
            return
        for job in throttle.candidates:
            throttle.admit(job)

    job = app.task(name="by day", queue="api", windows="00:00-01:00")(lambda: None).enqueue()
    before = job.job
    assert stoker.drain() == 0
    assert job.job == before
    (failing,) = [b for b in job.explain().blockers if b.reason is Reason.THROTTLER_FAILS]
    assert complaint in failing.text
    broken.clear()
    assert stoker.run_for("1m") == 1
    assert recall(app.desk.store, "api")[0].error is None


def test_an_interrupt_from_the_keyboard_is_no_error_of_a_throttler(
    app: Stoker, stoker: Harness
) -> None:
    app.throttler("api")(_raises(KeyboardInterrupt()))
    enqueue(app, ["east"])
    with pytest.raises(KeyboardInterrupt):
        stoker.drain()
    assert recall(app.desk.store, "api")[0].error is None


@pytest.mark.parametrize(
    "written", [b'{"reasons": {"1": 7}}', b"\xff", b'{"state": "\xff"}', b"[" * 100_000]
)
def test_a_memory_that_cannot_be_read_is_given_up_and_told(
    app: Stoker, stoker: Harness, written: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    states: list[object] = []

    @app.throttler("api")
    def admit_all(throttle: Throttle) -> None:
        states.append(throttle.state)
        throttle.state = "new"
        for job in throttle.candidates:
            throttle.admit(job)

    app.ensure_throttlers()
    (job,) = enqueue(app, ["east"])
    app.desk.clerk.transact([Change(notes=(NoteWrite("throttler:api", written, expect=0),))])
    (failing,) = [b for b in job.explain().blockers if b.reason is Reason.THROTTLER_FAILS]
    assert "what was remembered of it cannot be read and is given up" in failing.text
    assert stoker.drain() == 1
    assert states == [None]
    assert recall(app.desk.store, "api")[0] == Memory("new")
    assert "the throttler of the queue api: what was remembered" in caplog.text


def test_what_a_throttler_does_to_its_state_afterwards_is_of_no_account(
    app: Stoker, stoker: Harness
) -> None:
    state: list[object] = []

    @app.throttler("api")
    def keep(throttle: Throttle) -> None:
        throttle.state = state
        throttle.admit(throttle.candidates[0])

    enqueue(app, ["east"])
    app.ensure_throttlers()
    ruling = app.desk.throttling.ask("api", keep, room=1, owner="me").ruling
    assert ruling is not None
    state.append({1, 2})
    assert len(app.desk.throttling.carry_out(ruling)) == 1
    assert recall(app.desk.store, "api")[0].state == []


def test_what_can_be_done_no_more_is_told(
    app: Stoker, stoker: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    app.throttler("api")(_off_for_ever)
    (job,) = enqueue(app, ["east"])
    app.ensure_throttlers()
    ruling = app.desk.throttling.ask("api", _off_for_ever, room=1, owner="me").ruling
    assert ruling is not None
    app.desk.control.edit(job.id, {"policy": Policy(windows=parse_windows("00:00-01:00"))})
    assert app.desk.throttling.carry_out(ruling) == []
    assert "lies outside" in (recall(app.desk.store, "api")[0].error or "")
    assert "what a throttler of api said cannot be done" in caplog.text


def test_whoever_has_no_throttler_leaves_the_queue_alone(app: Stoker) -> None:
    per_key(app, {"east": 1})
    (job,) = enqueue(app, ["east"])
    assert app.ensure_throttlers() == ["api"]
    assert app.ensure_throttlers() == []
    assert app.desk.dispatch.claim(["api"]) == []
    assert Desk(app.desk.store).dispatch.claim(["*"]) == []
    texts = [blocker.text for blocker in job.explain().blockers]
    assert texts[0] == "no live worker has the throttler of the queue api"


def test_a_ruling_that_others_have_overtaken_starts_nothing(app: Stoker) -> None:
    per_key(app, {"east": 1})
    enqueue(app, ["east"] * 3)
    app.ensure_throttlers()
    ask, throttler = app.desk.throttling.ask, app.throttlers["api"]
    slow = ask("api", throttler, room=5, owner="slow").ruling
    assert ask("api", throttler, room=5, owner="other") == (None, 50_000)
    assert slow is not None
    app.desk.throttling.give_up(slow)  # as when its time is over
    quick = ask("api", throttler, room=5, owner="quick").ruling
    assert quick is not None
    assert len(app.desk.throttling.carry_out(quick)) == 1
    assert app.desk.throttling.carry_out(slow) == []
    assert [view.counts[State.RUNNING] for view in app.desk.store.survey(["api"])] == [1]


def test_a_job_that_comes_between_question_and_answer_is_asked_about_next(
    app: Stoker, stoker: Harness
) -> None:
    per_key(app, {"east": 1, "west": 1})
    app.ensure_throttlers()
    (east,) = enqueue(app, ["east"])
    ruling = app.desk.throttling.ask("api", app.throttlers["api"], room=5, owner="me").ruling
    urgent = app["fetch"].options(rank=-1, key="west").enqueue()
    assert ruling is not None
    assert app.desk.throttling.carry_out(ruling) == []  # it came in place of the admitted one
    assert [job.id for job in start(app)] == [urgent.id, east.id]


@pytest.mark.parametrize(
    ("queues", "function", "complaint"),
    [
        ((), print, "name the queues of a throttler"),
        ((print,), print, "name the queues of a throttler"),
        (("api",), "no function", "a throttler is a plain function"),
    ],
)
def test_a_throttler_that_cannot_be_is_refused(
    queues: tuple[str, ...], function: Callable[[Throttle], object], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        Stoker("memory:").throttler(*queues)(function)


def test_a_queue_has_one_throttler(app: Stoker) -> None:
    app.throttler("api", "other")(print)
    app.throttler("other")(print)
    with pytest.raises(BadInput, match="the queue 'api' has a throttler"):
        app.throttler("api")(repr)

    async def later(throttle: Throttle) -> None: ...

    with pytest.raises(BadInput, match="plain function"):
        app.throttler("third")(later)
