"""Random lives: the same steps on the reference and on another engine, compared after each.

The steps are drawn through a Chooser, so that a seeded walk (fast, many steps) and hypothesis
(which shrinks what it finds) share them. The draws are biased towards jobs that are held and
keys that are full: an unbiased walk hardly ever claims, and proves nothing.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from stoker.desk import Desk, Twin
from stoker.errors import LeaseLost, StokerError
from stoker.kernel import control, rules
from stoker.kernel.change import Change
from stoker.kernel.job import ENDED, Job, State, place
from stoker.kernel.outcome import Awaits, Failed, Finished, Outcome, Released
from stoker.kernel.policy import PLAIN, OnLost, Policy
from stoker.kernel.queue import Order, QueueSettings, Retention
from stoker.kernel.rate import parse_rate
from stoker.kernel.retry import Failure
from stoker.kernel.retry_forms import custom, fixed
from stoker.kernel.window import parse_windows
from stoker.store import Filter, InLine, Store
from stoker.watch.recover import recover
from stoker.watch.rouse import rouse
from stoker.watch.sweep import sweep
from tests.engines import SECOND, VirtualClock
from tests.model.admitted import Admitted

T = TypeVar("T")

QUEUES = ("a/1", "a/2", "b")
POLICIES = (
    PLAIN,
    PLAIN,
    PLAIN,
    Policy(timeout=5 * SECOND, retry=fixed("2s", limit=2)),
    Policy(on_lost=OnLost.RETRY, retry=fixed("2s", limit=1), crash_limit=None),
    Policy(on_lost=OnLost.FAIL),
    Policy(on_lost=OnLost.STAY, timeout=None),
    Policy(crash_limit=1, retry=custom("asked")),
    Policy(repeat="FINISHED, +1 MINUTE"),
    Policy(repeat="every 20s; overlap=allow"),
    Policy(windows=parse_windows("22:00-22:20, 22:40-23:30")),
)
BRIEF = Retention(finished=2 * SECOND, failed=3 * SECOND, cancelled=2 * SECOND)
SETTINGS = (
    QueueSettings(),
    QueueSettings(retention=BRIEF),
    QueueSettings(retention=BRIEF, key_capacity=1),
    QueueSettings(capacity=2),
    QueueSettings(key_capacity=1),
    QueueSettings(key_capacity=2, keys={"x": 1}, capacity=3),
    QueueSettings(order=Order.TIME_RANK),
    QueueSettings(order=Order.TIME_RANK, key_capacity=1),
    QueueSettings(paused=True),
    QueueSettings(retention=Retention(finished=0, failed=0, cancelled=0)),
    QueueSettings(key_capacity=2, retention=Retention(finished=0, failed=5 * SECOND)),
    QueueSettings(tasks={"n": 1}),
    QueueSettings(tasks={"n": 2, "": 3}, key_capacity=1, within="b"),
    QueueSettings(within="b", key_rate=parse_rate("2 per 5s")),
    QueueSettings(rate=parse_rate("2 per 4s, fixed"), capacity=3),
    QueueSettings(rate=parse_rate("1 per 2s, burst 3"), order=Order.TIME_RANK),
    QueueSettings(task_rates={"n": parse_rate("2 per 3s")}, key_rates={"x": parse_rate("1/2s")}),
    QueueSettings(capacity=4, shares={"x": 50, "y": 25}),
    QueueSettings(capacity=4, shares={"x": 50, "y": 25}, lend=True, order=Order.TIME_RANK),
    QueueSettings(fair=True),
    QueueSettings(fair=True, turns={"x": 2, "y": 0.5}, key_capacity=2, order=Order.TIME_RANK),
    QueueSettings(fair=True, tasks={"n": 1}, key_rate=parse_rate("2 per 3s, burst 2")),
    QueueSettings(fair=True, capacity=4, shares={"x": 50}, lend=True, ageing=SECOND),
    QueueSettings(ageing=SECOND),
    QueueSettings(ageing=2 * SECOND, key_capacity=1, tasks={"": 2}),
)
PLAIN_SETTINGS = tuple(settings for settings in SETTINGS if not settings.limited)
SPOILT = Failure(("builtins.ValueError",), "spoilt")
TTL = 6 * SECOND


class Chooser(Protocol):
    """Where choices come from."""

    def pick(self, options: Sequence[T]) -> T: ...


class SeededChooser:
    """Choices by a seed: the seed is the reproduction."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)


def _line(store: Store, queue: str, limit: int = 3) -> list[Job]:
    """The due jobs of a queue in its order, a page at a time."""
    jobs = store.find(InLine(queue, limit=limit))
    while page := store.find(InLine(queue, place(jobs[-1]), limit)) if jobs else []:
        jobs += page
    return jobs


class Lives:
    """Two desks, one on the reference; every step is done on both and must come out alike."""

    steps: Sequence[str] = ()
    """What may happen, by name, the likelier the oftener."""
    batches: Sequence[int] = (1, 1, 2, 4)
    """How many jobs come at once."""
    limits: Sequence[int] = (1, 2, 3, 8)
    """How many are asked for at once."""

    def __init__(self, chooser: Chooser, clock: VirtualClock, *stores: Store) -> None:
        self.pick = chooser.pick
        self.clock = clock
        self.stores = stores
        self.desks = [_desk(store) for store in stores]
        self.held: list[Job] = []
        self.sessions: list[int] = []
        self.seen: Counter[str] = Counter()
        self.admitted = Admitted()

    def step(self) -> str:
        """One random step and the comparison after it."""
        action: str = self.pick(self.steps)
        getattr(self, action)()
        self.compare()
        self.seen["steps"] += 1
        return action

    def both(self, use_case: Callable[[Desk], Any]) -> Any:
        """Do it on both; answers and refusals must be the same."""
        answers = [_answer(use_case, desk) for desk in self.desks]
        assert answers[1:] == answers[:-1], answers
        if isinstance(answers[0], tuple) and answers[0][:1] == (LeaseLost,):
            self.seen["fenced"] += 1
        return answers[0]

    def compare(self) -> None:
        """Everything that can be seen from outside is the same."""
        jobs = [store.find(Filter(limit=100_000)) for store in self.stores]
        assert jobs[1:] == jobs[:-1]
        surveys = [store.survey() for store in self.stores]
        assert surveys[1:] == surveys[:-1]
        sessions = [store.sessions() for store in self.stores]
        assert sessions[1:] == sessions[:-1]
        for job in jobs[0]:
            assert_sane(job)

    def compare_lines(self) -> None:
        """Due jobs stand in the same order."""
        for view in self.stores[0].survey():
            lines = [_line(store, view.name) for store in self.stores]
            assert lines[1:] == lines[:-1], view.name

    def jobs(self) -> list[Job]:
        return self.stores[0].find(Filter(limit=100_000))

    # -- steps -----------------------------------------------------------------------------

    def enqueue(self) -> None:
        jobs = [self._draft() for _ in range(self.pick(self.batches))]
        twin = self.pick(tuple(Twin))
        placed = self.both(lambda desk: desk.intake.enqueue_many(jobs, twin=twin))
        if isinstance(placed, list):
            self.seen["enqueued"] += sum(p.fresh for p in placed)
            self.seen["twins"] += sum(not p.fresh for p in placed)
        else:
            self.seen["twins"] += 1

    def _draft(self) -> Job:
        delay = self.pick((0, 0, 0, 0, 3, 50))
        return Job(
            self.pick(QUEUES),
            self.pick(("", "n")),
            self.pick((b"1", b"", b"x" * 3000)),
            rank=self.pick((-1, 0, 0, 5)),
            due_at=self.clock.now + delay * SECOND if delay else 0,
            weight=self.pick((1000, 1000, 1000, 500, 2000, 0)),
            key=self.pick((None, "x", "y", "z")),
            unique_key=self.pick((None, None, None, "u1", "u2")),
            ref=self.pick((None, None, None, None, f"r{self.seen['enqueued'] % 5}")),
            policy=self.pick(POLICIES),
        )

    def claim(self) -> None:
        queues, limit = self._queues(), self.pick(self.limits)
        session, visibility = self._lease()
        granted = self.both(
            lambda desk: desk.dispatch.claim(queues, limit, session=session, visibility=visibility)
        )
        self._granted(granted)

    def _queues(self) -> tuple[str, ...]:
        return self.pick((QUEUES, ("a/*",), ("b",), ("*",), ("b", "a/1"), ("a/2", "none")))

    def _lease(self) -> tuple[int | None, int | None]:
        session = self.pick((None, *self.sessions, *self.sessions))
        return session, self.pick((None, None, 2 * SECOND, 30 * SECOND))

    def _granted(self, granted: object) -> None:
        if isinstance(granted, list):
            self.seen["claimed"] += len(granted)
            self.held += granted
            self.admitted.check(granted, self.jobs(), self.stores[-1].survey())

    def _holding(self) -> Job | None:
        """A copy some worker has in hand: mostly of a job it still holds, at times a stale one."""
        if not self.held:
            return None
        return self.pick((self.held[-1], self.pick(self.held[-6:]), self.pick(self.held)))

    def report(self) -> None:
        job = self._holding()
        if job is None:
            return
        outcome = self._outcome()
        self.both(lambda desk: _report_one(desk, job, outcome))

    def _outcome(self) -> Outcome:
        outcomes: tuple[Outcome, ...] = (
            Finished(b"r"),
            Finished(None, b"next"),
            Finished(repeat=False),
            Failed(SPOILT),
            Released(),
            Released(self.clock.now + 3 * SECOND, b"y" * 2500),
        )
        return self.pick(outcomes)

    def report_and_claim(self) -> None:
        outcomes = [(job, self._outcome()) for job in self.held[-self.pick((1, 2, 4)) :]]
        queues = self._queues()
        answer = self.both(lambda desk: _report_many(desk, outcomes, queues))
        self._granted(answer[1])
        self.seen["fenced"] += sum(isinstance(r, tuple) and r[0] is LeaseLost for r in answer[0])

    def touch(self) -> None:
        job = self._holding()
        if job is not None:
            visibility = self.pick((None, 4 * SECOND))
            self.both(lambda desk: desk.report.touch(job, visibility=visibility, progress=0.5))

    def wait(self) -> None:
        job = self._holding()
        if job is not None:
            awaits = Awaits(self.pick(("k1", "k2")), self.pick((None, 4 * SECOND)))
            self.both(lambda desk: desk.report.wait(job, awaits))

    def reply(self) -> None:
        key = self.pick(("k1", "k2"))
        self.both(lambda desk: desk.control.reply(key, b"answer"))

    def spawn(self) -> None:
        job = self._holding() or (self.pick(self.jobs()) if self.jobs() else None)
        if job is not None:
            children = [self._draft() for _ in range(self.pick((1, 2)))]
            self.both(lambda desk: desk.intake.spawn(job, children))

    def control(self) -> None:
        jobs = self.jobs()
        if jobs:
            job_id = self.pick(jobs).id
            self.both(lambda desk: desk.control.cancel(job_id))

    def revive(self) -> None:
        ended = [job for job in self.jobs() if job.state in ENDED]
        if ended:
            job_id = self.pick(ended).id
            self.both(lambda desk: desk.control.revive(job_id))

    def edit(self) -> None:
        jobs = self.jobs()
        if jobs:
            job_id = self.pick(jobs).id
            draft = msgspec.structs.asdict(self._draft())
            fields = self.pick(
                (("payload",), ("key", "weight"), ("queue", "rank"), ("unique_key",))
            )
            news = {field: draft[field] for field in fields}
            self.both(lambda desk: desk.control.edit(job_id, news))

    def delete(self) -> None:
        jobs = self.jobs()
        if jobs:
            job_id = self.pick(jobs).id
            self.both(lambda desk: desk.control.delete(job_id))

    def configure(self) -> None:
        settings = self._settings()
        queue = self.pick(QUEUES)
        self.both(lambda desk: desk.control.configure(queue, settings))

    def _settings(self) -> QueueSettings:
        return self.pick(self.pick((PLAIN_SETTINGS, SETTINGS, SETTINGS)))

    def pass_time(self) -> None:
        self.clock.pass_(self.pick((0.25, 1, 2.5, 2.5, 2.5, 3, 10, 100)))

    def open_session(self) -> None:
        self.sessions.append(self.both(lambda desk: desk.dispatch.open_session("w", ttl=TTL)))

    def beat(self) -> None:
        for session in self.sessions[-3:]:
            self._beat(session)

    def _beat(self, session: int) -> None:
        self.both(lambda desk: desk.dispatch.beat(session, ttl=TTL, watch=True))

    def close_session(self) -> None:
        if self.sessions:
            session = self.sessions.pop(0)
            self.both(lambda desk: desk.dispatch.close_session(session))

    def recover(self) -> None:
        self.seen["recovered"] += self.both(lambda desk: recover(desk.clerk))

    def rouse(self) -> None:
        self.seen["roused"] += self.both(lambda desk: rouse(desk.clerk))

    def sweep(self) -> None:
        self.seen["swept"] += self.both(lambda desk: sweep(desk.clerk))

    def conflict(self) -> None:
        """Several decisions on the same old copies, in one batch and without aftercare: what two
        workers and an operator do at once, and what a crash leaves."""
        jobs = self.jobs()
        copies = [self.pick(jobs) for _ in range(3)] if jobs else []
        changes = [c for job in copies for c in _decided(job, self.clock.now)]
        answers = self.both(lambda desk: desk.store.transact(changes).receipts)
        self.seen["refused"] += sum(not receipt.ok for receipt in answers)


_WEIGHTS: dict[Callable[[Lives], None], int] = {
    Lives.enqueue: 8,
    Lives.claim: 8,
    Lives.report: 7,
    Lives.report_and_claim: 3,
    Lives.touch: 1,
    Lives.wait: 2,
    Lives.reply: 2,
    Lives.spawn: 3,
    Lives.control: 2,
    Lives.revive: 2,
    Lives.edit: 2,
    Lives.delete: 1,
    Lives.configure: 2,
    Lives.pass_time: 5,
    Lives.open_session: 2,
    Lives.beat: 3,
    Lives.close_session: 1,
    Lives.recover: 4,
    Lives.rouse: 2,
    Lives.sweep: 1,
    Lives.conflict: 2,
}
Lives.steps = [step.__name__ for step, weight in _WEIGHTS.items() for _ in range(weight)]


def _desk(store: Store) -> Desk:
    return Desk(store, dice=lambda: 0.5, token=itertools.count(1001).__next__)


def _answer(use_case: Callable[[Desk], Any], desk: Desk) -> Any:
    try:
        return use_case(desk)
    except StokerError as error:
        return (type(error), str(error))


def _report_one(desk: Desk, job: Job, outcome: Outcome) -> Any:
    ((result,), _) = desk.report.many([(job, outcome)])
    return _plain(result)


def _report_many(desk: Desk, outcomes: list[tuple[Job, Outcome]], queues: Sequence[str]) -> Any:
    request = desk.dispatch.request(queues, 3)
    results, grants = desk.report.many(outcomes, [request])
    return [_plain(result) for result in results], desk.dispatch.granted(grants[0])


def _plain(result: Job | StokerError | None) -> Any:
    return (type(result), str(result)) if isinstance(result, StokerError) else result


def _decided(job: Job, now: int) -> list[Change]:
    decisions: list[Callable[[], Change]] = [
        lambda: control.cancel(job, now=now),
        lambda: rules.finish(job, now=now, result=b"late"),
        lambda: control.delete(job),
        lambda: rules.wake(job),
    ]
    changes = []
    for decide in decisions:
        try:
            changes.append(decide())
        except StokerError:
            continue
    return changes


def assert_sane(job: Job) -> None:
    """What holds of every job at every moment."""
    assert (job.state is State.RUNNING) == (job.token is not None), job
    assert (job.state is State.WAITING) == (job.waits_for is not None), job
    assert (job.state in ENDED) == (job.ended_at is not None), job
    assert job.session is None or job.state is State.RUNNING, job
    assert min(job.open_children, job.attempt, job.crashes, job.failures) >= 0, job
