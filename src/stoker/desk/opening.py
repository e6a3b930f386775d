"""Which queues anybody may take jobs of, and when there will be something to take.

Stores know no hours: a queue that is closed, or that has a throttler, is left out of the claim.
Settings are up to a second old; when a queue opens and closes is exact all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from stoker.desk.clerk import Clerk
from stoker.kernel.job import Job
from stoker.kernel.queue import DEFAULTS, QueueSettings

_MOST_LOOKED_UP = 200
_MOST_SHUT = 10_000
_FOR_GOOD = 3_600_000_000


class _Shut(NamedTuple):
    """A queue that is closed: reckoning until when takes its time."""

    settings: tuple[QueueSettings, QueueSettings]
    since: int
    opens_at: int | None

    def holds(self, settings: tuple[QueueSettings, QueueSettings], at: int) -> bool:
        """Whether it is still so at a moment."""
        until = self.since + _FOR_GOOD if self.opens_at is None else self.opens_at
        return self.since <= at < until and self.settings == settings


class Opening:
    """The hours of queues."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk
        self._shut: dict[str, _Shut] = {}

    def claimable(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the queues that are open to everybody now."""
        names = tuple(names)
        special = self._special(names)
        if not special:
            return names
        now = self._clerk.store.now()
        return tuple(
            name
            for name in names
            if name not in special
            or (not special[name].throttled and self._opens_at(name, special[name], now) == now)
        )

    def opens_at(self, queue: str, at: int) -> int | None:
        """The moment itself if the queue is open then, else its next opening, if there is one."""
        return self._opens_at(queue, self._clerk.settings(queue), at)

    def misplaced(self, jobs: Sequence[Job]) -> set[int]:
        """Which of these jobs, just claimed, should not have been: their queue was closed at that
        moment, or nobody asked its throttler."""
        special = self._special({job.queue for job in jobs}, exactly=True)
        if not special:
            return set()
        return {
            job.id
            for job in jobs
            if (settings := special.get(job.queue)) is not None
            and (settings.throttled or not self._was_open(settings, job))
        }

    def next_due(self, names: Sequence[str], after: int | None = None) -> int | None:
        """When the next job of these queues falls due, after a moment (now), or a queue opens
        that was closed then."""
        store = self._clerk.store
        moment = store.now() if after is None else after
        shut = {
            name: opens_at
            for name, settings in self._special(names).items()
            if (opens_at := self._opens_at(name, settings, moment)) != moment
        }
        due = store.next_due([name for name in names if name not in shut], after)
        moments = [due, *shut.values()]
        return min((each for each in moments if each is not None), default=None)

    def _was_open(self, settings: QueueSettings, job: Job) -> bool:
        at = job.started_at
        return at is None or self._opens_at(job.queue, settings, at) == at

    def _opens_at(self, queue: str, settings: QueueSettings, at: int) -> int | None:
        outer = DEFAULTS if settings.within is None else self._clerk.settings(settings.within)
        if not settings.keeps_hours and not outer.keeps_hours:
            return at
        known = self._shut.get(queue)
        if known is not None and known.holds((settings, outer), at):
            return known.opens_at
        opens_at = settings.opens_at(at, outer)
        if opens_at != at:
            self._remember(queue, _Shut((settings, outer), at, opens_at))
        return opens_at

    def _remember(self, queue: str, shut: _Shut) -> None:
        if len(self._shut) >= _MOST_SHUT:
            self._shut.clear()  # where every job has a queue of its own
        self._shut[queue] = shut

    def _special(
        self, names: Collection[str], *, exactly: bool = False
    ) -> dict[str, QueueSettings]:
        """The settings of those queues that may not be open to everybody.

        Unless it has to be known exactly, who was open to everybody when last looked at is taken to
        be so still, and where there are very many nobody is looked up: what is claimed in error is
        given back, and then it is known.
        """
        if not exactly:
            names = [name for name in names if not self._was_plain(name)]
        known = self._clerk.settings_of(names, known=len(names) > _MOST_LOOKED_UP)
        return {name: settings for name, settings in known.items() if _is_special(settings)}

    def _was_plain(self, name: str) -> bool:
        settings = self._clerk.last_settings(name)
        return settings is not None and not _is_special(settings)


def _is_special(settings: QueueSettings) -> bool:
    return settings.keeps_hours or settings.throttled or settings.within is not None
