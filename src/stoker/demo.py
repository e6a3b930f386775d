"""A small show: `python -m stoker.demo`.

Two producers and three workers, all processes of their own, share one SQLite file for some ten
seconds. There are retries, a repeating job, parents with children, tenants that get one place
each, and a worker that is killed with jobs in hand. In the end the books must balance.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from tempfile import TemporaryDirectory

from stoker import Desk, Job, Policy, QueueSettings, State, failure_of, fixed, open_store
from stoker.errors import Refused
from stoker.kernel.job import ENDED, LIVE
from stoker.kernel.outcome import Failed, Finished, Outcome, Released
from stoker.store import Filter, QueueView
from stoker.watch import run_chores

ROUNDS, LETTERS, PAGES = 38, 12, 4
REPORTS = len(range(0, ROUNDS, 4))
PLAN = {"letters": ROUNDS * LETTERS, "tenants": ROUNDS * 3, "reports": REPORTS}
PLAN |= {"pages": REPORTS * PAGES, "pulse": 1}
KILL_AFTER, GIVE_UP_AFTER = 3.5, 60.0
VICTIM, TTL = "worker 2", 2_000_000
_SPAWN = multiprocessing.get_context("spawn")


def _begun(target: Callable[..., None], *args: object) -> SpawnProcess:
    process = _SPAWN.Process(target=target, args=args)
    process.start()
    return process


@contextmanager
def _at_work(url: str) -> Iterator[tuple[Desk, Callable[[float], bool]]]:
    """A desk for one process, and a pause that tells whether it is time to leave."""
    leave, parent = threading.Event(), multiprocessing.parent_process()
    signal.signal(signal.SIGTERM, lambda *_: leave.set())
    store = open_store(url)
    try:
        yield Desk(store), lambda pause: leave.wait(pause) or not (parent and parent.is_alive())
    finally:
        store.close()


def produce(url: str, drafts: Callable[[int], list[Job]], told: Connection) -> None:
    """Enqueue round after round; in the end, tell how many jobs were acknowledged."""
    enqueued = 0
    with _at_work(url) as (desk, leaving):
        for number in range(ROUNDS):
            if leaving(0.2):
                return
            enqueued += len(desk.intake.enqueue_many(drafts(number)))
    told.send(enqueued)


def letters(number: int) -> list[Job]:
    """Letters, of which some fail at first and some always."""
    policy = Policy(retry=fixed("300ms", limit=2))
    first = number * LETTERS
    return [Job("letters", "letter", b"%d" % (first + i), policy=policy) for i in range(LETTERS)]


def orders(number: int) -> list[Job]:
    """Jobs of three tenants, and now and then a report, which makes pages of its own."""
    tenants = [Job("tenants", "order", key=tenant) for tenant in ("ann", "bob", "cleo")]
    return [*tenants, Job("reports", "report")] if number % 4 == 0 else tenants


def work(url: str, name: str) -> None:
    """Report what is done and claim what is next, in one durable step; and so on."""
    with _at_work(url) as (desk, leaving):
        ear, jobs = desk.store.bell.listen(), list[Job]()
        session, beat_at = 0, 0.0
        while not leaving(0):
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + 0.5
                if not desk.dispatch.beat(session, ttl=TTL).alive:
                    session = desk.dispatch.open_session(name, ttl=TTL)
            request = desk.dispatch.request([*PLAN], 4, session=session)
            # A report that comes too late is refused, and somebody else has the job: so be it.
            _, grants = desk.report.many([(job, _outcome(desk, job)) for job in jobs], [request])
            jobs = [] if grants[0] is None else desk.dispatch.granted(grants[0])
            if not jobs:
                ear.wait(0.2)
        desk.report.many([(job, Released()) for job in jobs])
        ear.close()
        desk.dispatch.close_session(session)


def _outcome(desk: Desk, job: Job) -> Outcome:
    time.sleep(0.01)
    handler = _HANDLERS.get(job.name)
    try:
        return Finished() if handler is None else handler(desk, job)
    except (ConnectionError, Refused) as error:
        return Failed(failure_of(error))


def _letter(_: Desk, job: Job) -> Outcome:
    number = int(job.payload)
    if number % 60 == 59:
        raise ConnectionError("nobody lives at this address")
    if number % 12 == 7 and job.attempt == 1:
        raise ConnectionError("the post office is closed")
    return Finished()


def _report(desk: Desk, job: Job) -> Outcome:
    # It comes back when its pages are done; and also when its worker died, perhaps after the
    # pages were made. They must not be made twice.
    if not (job.open_children or job.finished_children):
        desk.intake.spawn(job, [Job("pages", "page") for _ in range(PAGES)])
    return Finished()


def _pulse(_: Desk, job: Job) -> Outcome:
    return Finished(payload=b"%d" % (int(job.payload) + 1))


_HANDLERS = {"letter": _letter, "report": _report, "pulse": _pulse}


class Screen:
    """Bars that are redrawn in place on a terminal; elsewhere a line each second."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._live = sys.stdout.isatty()
        self._drawn = 0
        self._next_line = 1.0
        blocks = "utf" in (sys.stdout.encoding or "").lower()
        self._full, self._empty = ("█", "░") if blocks else ("#", ".")

    @property
    def elapsed(self) -> float:
        """Seconds since the show began."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """A line that stays."""
        self._erase()
        print(f"{self.elapsed:5.1f} s  {text}", flush=True)

    def show(self, views: Sequence[QueueView]) -> None:
        """How far the queues are."""
        if self._live:
            self._erase()
            print("", *(self._bar(view) for view in views), sep="\n", flush=True)
            self._drawn = len(views) + 1
        elif self.elapsed >= self._next_line:
            self._next_line += 1.0
            counts = _totals(views)
            self.say(", ".join(f"{state.name.lower()} {counts[state]}" for state in State))

    def _erase(self) -> None:
        if self._drawn:
            print(f"\x1b[{self._drawn}F\x1b[J", end="")
            self._drawn = 0

    def _bar(self, view: QueueView) -> str:
        counts = view.counts
        done, planned = sum(counts[state] for state in ENDED), PLAN[view.name]
        width = 32 * done // planned
        bar = f"\x1b[32m{self._full * width}\x1b[0;2m{self._empty * (32 - width)}\x1b[0m"
        busy = "".join(f"  {counts[s]} {s.name.lower()}" for s in sorted(LIVE) if counts[s])
        failed = f"  \x1b[31m{counts[State.FAILED]} failed\x1b[0m" if counts[State.FAILED] else ""
        return f"  {view.name:8} {bar} {done:4} of {planned}{failed}{busy}"


def _totals(views: Sequence[QueueView]) -> Counter[State]:
    return sum((Counter(view.counts) for view in views), Counter[State]())


class Show:
    """Directs the processes and watches the store; it is the night watch as well."""

    def __init__(self, url: str, screen: Screen) -> None:
        self._url = url
        self._screen = screen
        self._desk = Desk(open_store(url))
        self._store = self._desk.store
        self._producers, self._workers = list[SpawnProcess](), list[SpawnProcess]()
        self._told: list[Connection] = []
        self._killed_at: float | None = None
        self._recovered = False

    def run(self) -> bool:
        """Whether the books balance in the end."""
        self._desk.control.configure("tenants", QueueSettings(key_capacity=1))
        every_second = Job("pulse", "pulse", b"0", policy=Policy(repeat="every 1s"))
        pulse = self._desk.intake.enqueue(every_second).id
        try:
            self._start()
            self._watch(lambda: self._recovered and not any(p.is_alive() for p in self._producers))
            self._watch(lambda: self._alive() <= 1)
            self._desk.control.cancel(pulse)
            self._watch(lambda: self._alive() == 0)
            return self._balance(pulse)
        finally:
            self._stop()
            self._store.close()

    def _start(self) -> None:
        # Ctrl-C reaches every process of a terminal; only this one is to act on it.
        mine = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for drafts in (letters, orders):
            ear, mouth = _SPAWN.Pipe(duplex=False)
            self._told.append(ear)
            self._producers.append(_begun(produce, self._url, drafts, mouth))
            mouth.close()
        self._workers = [_begun(work, self._url, f"worker {n}") for n in (1, 2, 3)]
        signal.signal(signal.SIGINT, mine)
        self._screen.say("two producers and three workers share one SQLite file")

    def _stop(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process in (*self._producers, *self._workers):
            process.terminate()
        for process in (*self._producers, *self._workers):
            process.join(5)
            process.kill()
            process.join()

    def _watch(self, over: Callable[[], bool]) -> None:
        """Show what happens and do the chores until it is over; at its time, kill a worker."""
        while not over():
            if self._screen.elapsed > GIVE_UP_AFTER:
                raise SystemExit(f"the show is not over after {GIVE_UP_AFTER:g} s")
            run_chores(self._desk.clerk, "the show")
            if self._killed_at is None and self._screen.elapsed > KILL_AFTER:
                self._kill()
            elif self._killed_at and not self._recovered and not self._held_by_victim():
                self._recovered = True
                later = self._screen.elapsed - self._killed_at
                self._screen.say(f"its jobs were recovered, {later:.1f} s after it died")
            self._screen.show(self._store.survey())
            time.sleep(0.1)

    def _alive(self) -> int:
        return sum(_totals(self._store.survey())[state] for state in LIVE)

    def _held_by_victim(self) -> int:
        sessions = (s.id for s in self._store.sessions() if s.name == VICTIM)
        return sum(len(self._store.find(Filter(session=session))) for session in sessions)

    def _kill(self) -> None:
        """Halt the victim and look: if it holds jobs it dies, else it may go on for now."""
        victim = self._workers[1]
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGSTOP)
        if not self._held_by_victim():
            os.kill(victim.pid, signal.SIGCONT)
            return
        victim.kill()
        victim.join()
        self._killed_at = self._screen.elapsed
        self._screen.say(f"{VICTIM} was killed with {self._held_by_victim()} jobs in hand")

    def _balance(self, pulse: int) -> bool:
        views = self._store.survey()
        self._screen.show(views)
        enqueued = sum(int(told.recv()) for told in self._told) + REPORTS * PAGES + 1
        finished, failed, cancelled = (_totals(views)[state] for state in sorted(ENDED))
        balanced = enqueued == finished + failed + cancelled
        again = sum(job.attempt > 1 for job in self._store.find(Filter(queue="letters", limit=999)))
        beats = int(self._store.get([pulse])[pulse].payload)
        print(
            f"\n{again} letters needed more than one try; the repeating job ran {beats} times.\n"
            f"enqueued {enqueued} = finished {finished} + failed {failed} + cancelled {cancelled}: "
            + ("the books balance." if balanced else "THE BOOKS DO NOT BALANCE.")
        )
        return balanced


def main() -> int:
    """Run the show; 0 if the books balance, 1 if not, 130 if somebody ended it early."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with TemporaryDirectory(prefix="stoker-demo-") as folder:
        try:
            return 0 if Show(f"sqlite:///{folder}/jobs.db", Screen()).run() else 1
        except KeyboardInterrupt:
            print("\nended early; no process is left behind.")
            return 130


if __name__ == "__main__":
    sys.exit(main())
