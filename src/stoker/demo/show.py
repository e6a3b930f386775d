"""The director: starts everybody, kills a worker, watches, and balances the books."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import msgspec

from stoker import Job, State
from stoker.demo.picture import PLACES, PLAN, Picture, in_words, totals
from stoker.demo.producers import end_with_parent, letters, orders, produce
from stoker.demo.screen import GREEN, RED, YELLOW, Screen
from stoker.demo.tasks import app, pulse
from stoker.desk.workers import WorkerView, survey_workers
from stoker.fleet.supervisor import Supervisor
from stoker.kernel.job import ENDED, LIVE
from stoker.store import Filter
from stoker.worker.worker import WorkerSettings

CANCEL_AT, KILL_LATER, GIVE_UP_AFTER = 0.4, 1.0, 60.0
_SPAWN = multiprocessing.get_context("spawn")


def supervise() -> None:
    """The fleet, as `stoker worker` would run it."""
    # A group of its own: Ctrl-C in a terminal reaches the show, which ends the fleet in time.
    os.setpgid(0, 0)
    end_with_parent()
    queues = tuple(app.tasks.queues())
    settings = WorkerSettings(queues, concurrency=PLACES, ttl=2.0, grace=1.0, name="worker")
    Supervisor("stoker.demo.tasks:app", settings, processes=3).run()


class Show:
    """Directs the processes and follows a script; each scene tells when it is over."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._picture = Picture(screen)
        self._store = app.desk.store
        self._producers, self._told = list[SpawnProcess](), list[Connection]()
        self._fleet: SpawnProcess | None = None
        self._script = [self._cancel, self._kill, self._recovered, self._replaced]
        self._victim: WorkerView | None = None
        self._cancelled_at = self._killed_at = 0.0

    def run(self) -> bool:
        """Whether the books balance in the end."""
        app.configure("orders", key_capacity=1)
        try:
            self._start()
            self._watch(lambda: not self._script and not any(p.is_alive() for p in self._producers))
            self._watch(lambda: self._alive() <= 1)
            schedule = app.desk.schedules.get(pulse.name).job
            app.job(schedule.id).cancel()
            self._watch(lambda: self._alive() == 0)
            return self._balance(app.job(schedule.id).job)
        finally:
            self._stop()
            app.close()

    def _start(self) -> None:
        # Ctrl-C reaches every process of a terminal; only this one is to act on it.
        mine = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for calls in (letters, orders):
            ear, mouth = _SPAWN.Pipe(duplex=False)
            self._told.append(ear)
            self._producers.append(_SPAWN.Process(target=produce, args=(calls, mouth)))
            self._producers[-1].start()
            mouth.close()
        self._fleet = _SPAWN.Process(target=supervise)
        self._fleet.start()
        signal.signal(signal.SIGINT, mine)
        self._screen.say("two producers and a fleet of three workers share one SQLite file")

    def _stop(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        processes = [*self._producers, *([self._fleet] if self._fleet else [])]
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(10)
            process.kill()
            process.join()

    def _watch(self, over: Callable[[], bool]) -> None:
        """Show what happens, scene after scene, until it is over."""
        while not over():
            if self._screen.elapsed > GIVE_UP_AFTER:
                raise SystemExit(f"the show is not over after {GIVE_UP_AFTER:g} s")
            if self._script and self._script[0]():
                self._script.pop(0)
            self._draw()
            time.sleep(0.1)

    def _draw(self) -> None:
        queues, workers = self._store.survey(), survey_workers(self._store)
        self._screen.draw(self._picture.of(queues, self._films(), workers), in_words(queues))

    def _films(self) -> list[Job]:
        return self._store.find(Filter(queue="films"))

    def _alive(self) -> int:
        return sum(totals(self._store.survey())[state] for state in LIVE)

    # -- the script ------------------------------------------------------------------------

    def _cancel(self) -> bool:
        running = [job for job in self._films() if job.state is State.RUNNING]
        well_begun = [job for job in running if job.progress >= CANCEL_AT]
        if not well_begun:
            return False
        unwanted = well_begun[-1]
        app.job(unwanted.id).cancel()
        self._cancelled_at = self._screen.elapsed
        self._screen.say(
            f"{self._screen.paint('cancel', YELLOW)} {unwanted.meta}: its handler is told to stop"
        )
        return True

    def _kill(self) -> bool:
        """Halt the busiest worker and look: if it holds jobs it dies, else it may go on."""
        workers = survey_workers(self._store)
        if not workers or self._screen.elapsed < self._cancelled_at + KILL_LATER:
            return False
        busiest = max(workers, key=self._worth)
        assert busiest.info.pid is not None
        os.kill(busiest.info.pid, signal.SIGSTOP)
        held = self._held_by(busiest)
        if not held:
            os.kill(busiest.info.pid, signal.SIGCONT)
            return False
        os.kill(busiest.info.pid, signal.SIGKILL)
        self._victim, self._killed_at = busiest, self._screen.elapsed
        self._screen.say(
            f"{self._screen.paint('kill -9', RED)} {busiest.info.pid}: "
            f"{busiest.name} dies with {len(held)} job{'s' * (len(held) > 1)} in hand"
        )
        return True

    def _worth(self, worker: WorkerView) -> tuple[bool, int]:
        """A film that begins again elsewhere is a sight; else, the more jobs the better."""
        held = self._held_by(worker)
        return any(job.queue == "films" for job in held), len(held)

    def _held_by(self, worker: WorkerView) -> list[Job]:
        return self._store.find(Filter(session=worker.session))

    def _recovered(self) -> bool:
        assert self._victim is not None
        if self._held_by(self._victim):
            return False
        later = self._screen.elapsed - self._killed_at
        self._screen.say(f"all that it held is back in line, {later:.1f} s after it died")
        return True

    def _replaced(self) -> bool:
        assert self._victim is not None
        name, old = self._victim.name, self._victim.session
        if not any(w.name == name and w.session != old for w in survey_workers(self._store)):
            return False
        self._screen.say(f"the supervisor has started a new {name}")
        return True

    # -- the end ---------------------------------------------------------------------------

    def _balance(self, schedule: Job) -> bool:
        self._draw()
        queues = self._store.survey()
        enqueued = sum(int(told.recv()) for told in self._told) + PLAN["pages"] + 1
        finished, failed, cancelled = (totals(queues)[state] for state in sorted(ENDED))
        balanced = enqueued == finished + failed + cancelled
        again = sum(job.attempt > 1 for job in self._store.find(Filter(queue="letters", limit=999)))
        beats = msgspec.json.decode(schedule.payload)["beats"]
        verdict = "the books balance." if balanced else "THE BOOKS DO NOT BALANCE."
        self._screen.end(
            f"{again} letters needed more than one try; the repeating task ran {beats} times.",
            f"enqueued {enqueued} = finished {finished} + failed {failed} + cancelled {cancelled}: "
            + self._screen.paint(verdict, GREEN if balanced else RED),
        )
        return balanced
