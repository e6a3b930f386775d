"""The nemesis: starts actors, kills, stops and resumes them at random, and notes each deed.

It touches only processes that it started itself.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stoker.kernel.job import State, load
from stoker.store import Filter, Store
from stoker.store.clock import wall_clock
from tests.faults.actors import name_of
from tests.faults.journal import Deed, Entry, Granted, Journal, Offer, Ruled, Sample, read_journal
from tests.faults.worker import TTL

ROOT = Path(__file__).parents[2]
CAST = {"producer": 2, "worker": 4, "chores": 2}

_TTL_SECONDS = TTL / 1e6
_MOST_ASLEEP = 2
_PATIENCE = 30.0
_MOST_AIMED = 1.0


def environment() -> dict[str, str]:
    """What a process of ours needs to find the code."""
    paths = os.pathsep.join([os.fspath(ROOT / "src"), os.fspath(ROOT)])
    return {**os.environ, "PYTHONPATH": paths}


def _awaits_answer(entry: Entry) -> bool:
    return isinstance(entry, Offer)


def _holds_jobs(entry: Entry) -> bool:
    return isinstance(entry, Granted) and bool(entry.leases)


@dataclass
class Actor:
    """A process of ours, and until when (by the monotonic clock) it is stopped, if it is."""

    role: str
    slot: int
    life: int
    process: subprocess.Popen[bytes]
    asleep_until: float | None = None

    @property
    def name(self) -> str:
        return name_of(self.role, self.slot, self.life)


@dataclass
class Nemesis:
    """Plays against one store; `deeds` counts what it did."""

    url: str
    store: Store
    folder: Path
    dice: random.Random
    actors: list[Actor] = field(default_factory=list)
    deeds: dict[str, int] = field(default_factory=lambda: {"kill": 0, "stop": 0, "resume": 0})

    def __post_init__(self) -> None:
        self._journal = Journal(self.folder, "nemesis")
        self._woken: set[str] = set()
        """Workers that were woken: some of them slept for longer than their sessions live."""

    # -- actors ----------------------------------------------------------------------------

    def raise_curtain(self, *roles: str) -> None:
        """Start the whole cast, or those who have these roles."""
        for role in roles or CAST:
            self.actors += [self._start(role, slot, 0) for slot in range(CAST[role])]

    def _start(self, role: str, slot: int, life: int) -> Actor:
        command = [sys.executable, "-m", "tests.faults.actors", role, self.url]
        command += [os.fspath(self.folder), str(slot), str(life)]
        with (self.folder / f"{name_of(role, slot, life)}.err").open("wb") as errors:
            process = subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=errors)
        return Actor(role, slot, life, process)

    def _signal(self, actor: Actor, what: str, number: signal.Signals) -> None:
        self._journal.write(Deed(at=wall_clock(), what=what, actor=actor.name))
        actor.process.send_signal(number)
        self.deeds[what] += 1

    def _kill(self, actor: Actor) -> None:
        self._signal(actor, "kill", signal.SIGKILL)
        actor.process.wait()
        successor = self._start(actor.role, actor.slot, actor.life + 1)
        self.actors[self.actors.index(actor)] = successor

    def _stop(self, actor: Actor, seconds: float) -> None:
        self._signal(actor, "stop", signal.SIGSTOP)
        actor.asleep_until = time.monotonic() + seconds

    def _resume(self, actor: Actor) -> None:
        self._signal(actor, "resume", signal.SIGCONT)
        actor.asleep_until = None
        if actor.role == "worker":
            self._woken.add(actor.name)

    # -- the storm -------------------------------------------------------------------------

    def storm(self, seconds: float, *, kills: int, stops: int) -> None:
        """Rage for a while, and until there were enough deeds and somebody came too late."""
        began, pace = time.monotonic(), seconds / (kills + stops) * 0.75
        while (
            time.monotonic() < began + seconds
            or self.deeds["kill"] < kills
            or self.deeds["stop"] < stops
            or not self._was_anybody_too_late()
        ):
            time.sleep(self.dice.uniform(0, 2 * pace))
            self._wake_those_who_slept_enough()
            self.expect_nobody_to_have_left()
            self._strike(stop=self.dice.random() < stops / (kills + stops) * 1.5)
            self._look()

    def _strike(self, *, stop: bool) -> None:
        awake = [actor for actor in self.actors if actor.asleep_until is None]
        if stop and len(self.actors) - len(awake) < _MOST_ASLEEP:
            victim = self.dice.choice(awake)
            seconds = self._nap(victim)
            if seconds > _TTL_SECONDS:
                self._aim(victim, _holds_jobs)
            self._stop(victim, seconds)
        elif not stop:
            # Most sleepers are spared, so that they get to report too late.
            spared = self.dice.random() < 0.9
            victim = self.dice.choice(awake if spared else self.actors)
            if victim.role == "producer" and self.dice.random() < 0.5:
                self._aim(victim, _awaits_answer)
            self._kill(victim)

    def _aim(self, victim: Actor, when: Callable[[Entry], bool]) -> None:
        """Wait for a moment that is rare: where machines are slow most actors have only just been
        started, and where the backlog is full producers offer little."""
        deadline = time.monotonic() + _MOST_AIMED
        while time.monotonic() < deadline:
            written = read_journal(self.folder, victim.name)
            if written and when(written[-1]):
                return
            time.sleep(0.005)

    def _was_anybody_too_late(self) -> bool:
        """Was a report refused because its lease was lost?"""
        return any(
            isinstance(entry, Ruled) and entry.refused == "lease_lost"
            for name in self._woken
            for entry in read_journal(self.folder, name)
        )

    def _nap(self, victim: Actor) -> float:
        """Short for anybody; for workers often longer than their sessions live."""
        outlives_session = victim.role == "worker" and self.dice.random() < 0.7
        return self.dice.uniform(0.02, 1.0) + (_TTL_SECONDS + 0.5) * outlives_session

    def _wake_those_who_slept_enough(self) -> None:
        now = time.monotonic()
        for actor in self.actors:
            if actor.asleep_until is not None and actor.asleep_until <= now:
                self._resume(actor)

    def _look(self) -> None:
        """How much runs at this moment, in one look at each limited queue."""
        for view in self.store.survey():
            if view.settings.limited:
                running = Filter(states=(State.RUNNING,), queue=view.name, limit=1000)
                jobs, keys = self.store.find(running), dict[str, int]()
                for job in jobs:
                    if job.key is not None:
                        keys[job.key] = keys.get(job.key, 0) + load(job)
                used = max(view.used, sum(load(job) for job in jobs))
                now = wall_clock()
                self._journal.write(Sample(at=now, queue=view.name, used=used, keys=keys))

    def expect_nobody_to_have_left(self) -> None:
        """An actor ends when it is told to, and never because of an error."""
        for actor in self.actors:
            code = actor.process.poll()
            assert code is None, f"{actor.name} ended with {code}: {self._last_words(actor)}"

    def _last_words(self, actor: Actor) -> str:
        return (self.folder / f"{actor.name}.err").read_text(encoding="utf-8")

    # -- the end ---------------------------------------------------------------------------

    def calm(self) -> None:
        """Wake everybody; nothing more will happen to them."""
        for actor in self.actors:
            if actor.asleep_until is not None:
                self._resume(actor)

    def dismiss(self, *roles: str) -> None:
        """Ask actors to come to an end, and see that they do so in good order."""
        leaving = [actor for actor in self.actors if actor.role in roles]
        for actor in leaving:
            actor.process.send_signal(signal.SIGTERM)
        for actor in leaving:
            code = actor.process.wait(_PATIENCE)
            self.actors.remove(actor)
            # Whoever has only just been started does not hear the request yet, and dies of it.
            ended_well = code in (0, -signal.SIGTERM)
            assert ended_well, f"{actor.name} ended with {code}: {self._last_words(actor)}"

    def drained(self, within: float) -> bool:
        """Has all work been done, or will it be within so many seconds?"""
        deadline = time.monotonic() + within
        live = (State.QUEUED, State.RUNNING, State.WAITING)
        while any(view.counts[state] for view in self.store.survey() for state in live):
            if time.monotonic() > deadline:
                return False
            self.expect_nobody_to_have_left()
            time.sleep(0.1)
        return True

    def drop_curtain(self) -> None:
        """End whoever is still there, whatever has happened."""
        for actor in self.actors:
            actor.process.kill()
            actor.process.wait()
        self.actors.clear()
        self._journal.close()
