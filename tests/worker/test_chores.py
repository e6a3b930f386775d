"""The chores: done by one of several workers, by another when that one leaves, and only when there
is something to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stoker import Desk, Job, State, Stoker
from stoker.desk.clerk import Clerk
from stoker.kernel import rules
from stoker.kernel.queue import QueueSettings, Retention
from stoker.store import Store
from stoker.watch import rounds, run_chores
from stoker.watch.rounds import Rounds
from tests.engines import SECOND, VirtualClock
from tests.worker.conftest import Hire
from tests.worker.waiting import until


class Rota:
    """Who has asked for the turn, and who has had it."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.had: Counter[str] = Counter()

    def run(self, clerk: Clerk, owner: str, **how: Any) -> dict[str, int] | None:
        done = run_chores(clerk, owner, **how)
        self.asked[owner] += 1
        if done is not None:
            self.had[owner] += 1
        return done


@pytest.fixture
def rota(monkeypatch: pytest.MonkeyPatch) -> Rota:
    """Every round is made, whether there is something to do or not."""
    rota = Rota()
    monkeypatch.setattr(rounds, "run_chores", rota.run)
    make = Rounds.make
    monkeypatch.setattr(Rounds, "make", lambda self, troubled: make(self, troubled=True))
    return rota


def test_exactly_one_of_several_workers_does_the_chores(
    app: Stoker, hire: Hire, rota: Rota
) -> None:
    for _ in range(3):
        hire(ttl=1)
    until(lambda: len(rota.asked) == 3 and min(rota.asked.values()) >= 3)
    (owner,) = rota.had
    assert rota.had[owner] >= 3


def test_another_does_the_chores_when_that_worker_stops(
    app: Stoker, hire: Hire, rota: Rota
) -> None:
    workers = [hire(ttl=1), hire(ttl=1)]
    until(lambda: rota.had)
    (first,) = rota.had
    (leaving,) = [worker for worker in workers if worker._owner == first]
    leaving.stop()
    until(lambda: len(rota.had) == 2)
    assert set(rota.had) == {worker._owner for worker in workers}


def test_a_worker_without_chores_does_none(app: Stoker, hire: Hire, rota: Rota) -> None:
    hire(ttl=1, chores=False)
    hire(ttl=1)
    until(lambda: sum(rota.asked.values()) >= 3)
    assert len(rota.asked) == 1


def test_the_job_of_a_dead_worker_is_recovered_and_run(app: Stoker, hire: Hire) -> None:
    job = app.task(lambda: "recovered").enqueue()
    dead = app.desk.dispatch.open_session("dead", ttl=1)
    claimed: list[Any] = app.desk.dispatch.claim(["default"], visibility=1)
    assert (len(claimed), job.state) == (1, State.RUNNING)
    hire(ttl=1)
    assert job.wait(timeout="30s") == "recovered"
    assert (job.job.attempt, job.job.crashes) == (2, 1)
    until(lambda: dead not in {session.id for session in app.desk.store.sessions()})


def test_schedules_tick_with_the_chores(app: Stoker, hire: Hire) -> None:
    @app.task(repeat="every 200ms; overlap=allow")
    def tick() -> None: ...

    hire(ttl=1)
    until(lambda: app.desk.store.survey(["default"])[0].counts[State.FINISHED] >= 2)


# -- rounds --------------------------------------------------------------------------------


class Turns:
    """Counts how often the turn is asked for."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self._hold = store.hold
        monkeypatch.setattr(store, "hold", self._counted)

    def _counted(self, name: str, owner: str, ttl: int) -> bool:
        self.asked += 1
        return self._hold(name, owner, ttl)


@pytest.fixture
def turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(store, monkeypatch)


@pytest.fixture
def mine(desk: Desk) -> Rounds:
    """Rounds that have begun, so that the next tidying for no reason is a minute away."""
    mine = Rounds(desk.clerk, "me", every=SECOND)
    mine.make()
    return mine


def test_a_round_with_nothing_to_do_asks_for_no_turn(
    desk: Desk, clock: VirtualClock, mine: Rounds, turns: Turns
) -> None:
    session = desk.dispatch.open_session(ttl=60 * SECOND)
    desk.intake.enqueue_many([Job("q")] * 3)
    desk.report.finish(desk.dispatch.claim(["q"], session=session)[0])
    desk.dispatch.claim(["q"], session=session)
    for _ in range(29):
        clock.pass_(1)
        assert mine.make() is None
    assert turns.asked == 0


def lost(desk: Desk) -> None:
    desk.intake.enqueue(Job("q"))
    desk.dispatch.claim(["q"], visibility=SECOND)


def adrift(desk: Desk) -> None:
    desk.intake.enqueue(Job("q"))
    (parent,) = desk.dispatch.claim(["q"])
    desk.intake.spawn(parent, [Job("q")])
    # It finishes, and nobody is left to let its child go.
    now_a_parent = desk.store.get([parent.id])[parent.id]
    desk.store.transact([rules.finish(now_a_parent, now=desk.store.now())])


def forgettable(desk: Desk) -> None:
    desk.control.configure("q", QueueSettings(retention=Retention(finished=SECOND)))
    desk.intake.enqueue(Job("q"))
    desk.report.finish(desk.dispatch.claim(["q"])[0])


def dead(desk: Desk) -> None:
    desk.dispatch.open_session(ttl=SECOND)


@pytest.mark.parametrize("trouble", [lost, adrift, forgettable, dead])
def test_a_round_is_made_when_there_is_something_to_do(
    desk: Desk,
    clock: VirtualClock,
    mine: Rounds,
    turns: Turns,
    trouble: Callable[[Desk], None],
) -> None:
    trouble(desk)
    clock.pass_(1)
    assert mine.make() is not None
    assert turns.asked > 0
    assert mine.make() is None


def test_what_a_beat_has_told_is_not_asked_again(
    desk: Desk, clock: VirtualClock, mine: Rounds
) -> None:
    lost(desk)
    session = desk.dispatch.open_session(ttl=60 * SECOND)
    clock.pass_(1)
    assert mine.make(troubled=False) is None
    heard = desk.dispatch.beat(session, ttl=60 * SECOND, watch=True).troubled
    assert mine.make(troubled=heard) == {"recover": 1, "rouse": 0, "sweep": 0}


def queues_left(desk: Desk) -> list[str]:
    return [view.name for view in desk.store.survey()]


def leave_an_empty_queue(desk: Desk) -> None:
    desk.control.delete(desk.intake.enqueue(Job("empty")).id)
    assert queues_left(desk) == ["empty"]


def test_now_and_then_the_store_is_tidied_for_no_reason(
    desk: Desk, clock: VirtualClock, mine: Rounds
) -> None:
    leave_an_empty_queue(desk)
    assert mine.make() is None
    assert queues_left(desk) == ["empty"]
    clock.pass_(60)
    assert mine.make() is None
    assert queues_left(desk) == []


def test_nobody_tidies_while_it_is_the_turn_of_somebody_else(
    desk: Desk, clock: VirtualClock, mine: Rounds
) -> None:
    leave_an_empty_queue(desk)
    clock.pass_(60)
    desk.store.hold("chores", "somebody else", SECOND)
    assert mine.make() is None
    assert queues_left(desk) == ["empty"]


def test_what_somebody_else_is_at_is_looked_at_again(
    desk: Desk, clock: VirtualClock, mine: Rounds
) -> None:
    lost(desk)
    clock.pass_(4)
    desk.store.hold("chores", "somebody else", 2 * SECOND)
    assert mine.make() is None
    clock.pass_(2)
    assert mine.make() == {"recover": 1, "rouse": 0, "sweep": 0}
