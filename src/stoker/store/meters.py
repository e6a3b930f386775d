"""The memory store's meters: what runs, what has started, and whose turn it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from stoker.kernel.admission import Turnstile, of_key, of_task
from stoker.kernel.job import Job, load
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.turns import Party, Turns
from stoker.store.choosing import FairLine, Line
from stoker.store.turnstiles import Turnstiles


class Meters:
    """All meters of all queues, whose settings are somebody else's."""

    def __init__(self, settings: Mapping[str, QueueSettings]) -> None:
        self.settings = settings
        self._used: Counter[tuple[str, str]] = Counter()
        self._flows: dict[tuple[str, str], tuple[str, int]] = {}
        self._clocks: dict[str, int] = {}
        self._reached: dict[str, dict[Party, int]] = {}
        self._openings: dict[str, int | None] = {}

    def settings_of(self, queue: str) -> QueueSettings:
        """The settings of a queue, whether there is such a queue or not."""
        return self.settings.get(queue, DEFAULTS)

    def enter(self, job: Job, step: int) -> None:
        """A job arrives in a state (+1) or leaves it (-1)."""
        burden = step * load(job)
        self._used[job.queue, ""] += burden
        self._used[job.queue, of_task(job.name)] += burden
        if job.key is not None:
            self._used[job.queue, of_key(job.key)] += burden

    def held(self, queue: str) -> int:
        """The units that a queue's own jobs hold."""
        return self._used[queue, ""]

    def used(self, queue: str, meter: str) -> int:
        """The units that run. A queue's own meter counts those within it as well."""
        if meter:
            return self._used[queue, meter]
        return sum(self._used[member, ""] for member in self.members(queue))

    def flow(self, queue: str, meter: str) -> str:
        """What is remembered for a rate."""
        return self._flows.get((queue, meter), ("", 0))[0]

    def members(self, queue: str) -> list[str]:
        """The queue and those within it."""
        inner = [name for name, known in self.settings.items() if known.within == queue]
        return list(dict.fromkeys([queue, *inner]))

    def eased(self, queue: str) -> set[str]:
        """Queues in which there may be room because something has ended in this one."""
        settings = self.settings[queue]
        inner = self.members(queue) if settings.waits_for_room else []
        outer = self.members(settings.within) if settings.within is not None else []
        return {*inner, *outer}

    def opening(self, queue: str) -> int | None:
        """When a rate may let those in who were refused last."""
        return self._openings.get(queue)

    def entrances(self, now: int) -> Entrances:
        """The turnstiles for one claim."""
        return Entrances(self, now)

    def remember(self, turnstile: Turnstile) -> None:
        """What a claim did to a queue's rates."""
        for queue, meter, state, until in turnstile.flows():
            self._flows[queue, meter] = (state, until)
        self._openings[turnstile.name] = turnstile.opens_at

    def turns(self, queue: str) -> Turns:
        """Whose turn it is in a queue."""
        reached = self._reached.get(queue, {})
        settings = self.settings_of(queue)
        return Turns(settings, self._clocks.get(queue, 0), lambda party: reached.get(party, 0))

    def remember_turns(self, queue: str, turns: Turns) -> None:
        """How far everybody has been served."""
        self._clocks[queue] = turns.clock
        reached = self._reached.setdefault(queue, {})
        reached.update(turns.moved())
        for party in [party for party, at in reached.items() if at <= turns.clock]:
            del reached[party]  # it is as if it had never been there

    def tidy(self, now: int) -> None:
        """Forget what no longer counts."""
        self._flows = {spot: flow for spot, flow in self._flows.items() if flow[1] > now}
        self._used = +self._used
        for queue in self._clocks.keys() - self.settings.keys():
            del self._clocks[queue]
            self._reached.pop(queue, None)


class Entrances:
    """What jobs meet in one claim: turnstiles, and turns."""

    def __init__(self, meters: Meters, now: int) -> None:
        self._meters = meters
        self._turnstiles = Turnstiles(meters.settings_of, meters, now)
        self._turns: dict[str, Turns] = {}

    def line(self, queue: str, jobs: Iterable[Job]) -> Line[Job]:
        """A queue's due jobs, given in its order, before its turnstile."""
        turnstile = self._turnstiles.of(queue)
        settings = turnstile.settings
        outer = self._meters.settings_of(settings.within or "")
        if settings.paused or outer.paused:
            return Line((), turnstile)
        if not settings.fair:
            return Line(jobs, turnstile)
        turns = self._turns[queue] = self._meters.turns(queue)
        return FairLine(jobs, turnstile, turns)

    def close(self) -> None:
        """Remember what the claim did."""
        for turnstile in self._turnstiles:
            self._meters.remember(turnstile)
        for queue, turns in self._turns.items():
            self._meters.remember_turns(queue, turns)
