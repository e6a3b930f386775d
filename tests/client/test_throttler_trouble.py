"""Throttlers that fail, that are overtaken, and those who have none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker import Desk, Job, State, Stoker, Throttle
from stoker.desk import throttling
from stoker.desk.blocker import Reason
from stoker.desk.throttle_memory import recall
from stoker.errors import BadInput
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


@pytest.mark.parametrize(
    ("throttler", "complaint"),
    [
        (_broken, "ZeroDivisionError: no such share"),
        (_unjson, "BadInput: the state of a throttler must be what JSON can hold"),
        (_presumptuous, "BadInput: job 1000000000 is no candidate"),
        (_unreasonable, "BadInput: a job is refused for a reason"),
        (_timeless, "BadInput: a job is put off to a datetime or to UTC microseconds, not to "),
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
        for job in throttle.candidates:
            throttle.admit(job)

    (job,) = enqueue(app, ["east"])
    before = job.job
    assert stoker.drain() == 0
    assert job.job == before
    (failing,) = [b for b in job.explain().blockers if b.reason is Reason.THROTTLER_FAILS]
    assert complaint in failing.text
    broken.clear()
    assert stoker.run_for("1m") == 1
    assert recall(app.desk.store, "api")[0].error is None


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


def test_of_very_many_jobs_those_are_found_that_go_first(
    app: Stoker, stoker: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "MOST_CANDIDATES", 5)
    per_key(app, {"east": 1, "west": 1})
    enqueue(app, ["east"] * 8)
    urgent = app["fetch"].options(rank=-1, key="west").enqueue()
    assert start(app) == []  # a stranger came in place of the one that was admitted
    assert {job.id for _ in range(2) for job in start(app)} == {urgent.id, 1}


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
