"""Moving everything from one store to another while the old one goes on working.

First all jobs are copied, again and again until little is left to copy. Then the old store closes:
it takes and gives no more, and what runs comes to its end. Then it is shut, the rest is copied, and
the new store opens. Until that moment the old store is the truth and the new one is sealed, so a
move that was interrupted anywhere is simply run again, or abandoned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from stoker.desk.clerk import Clerk
from stoker.errors import BadInput, StokerError
from stoker.kernel import rules
from stoker.kernel.change import Change, Note, NoteWrite
from stoker.kernel.job import Job, State
from stoker.kernel.queue import DEFAULTS
from stoker.store import Filter, QueueView, Store
from stoker.store.paging import PAGE, pages
from stoker.store.seal import SEAL, UNSEALED, Seal, sealed

ORIGIN = "stoker:moving-from"
"""Set in the new store until the move is over: whose jobs it is being filled with."""
DESTINATION = "stoker:moving-to"
"""Set in the old store from the moment it closes."""
ARRIVED = "stoker:moved-from"
"""Set in the new store when the move is over: whose jobs it was filled with."""

_OURS = frozenset({SEAL, ORIGIN, DESTINATION, ARRIVED})
_LIVE_PASSES = 5
_FEW = 1000
_LOOK_SECONDS = 0.1


class Step(NamedTuple):
    """How far a move has come, for those who watch."""

    what: str
    done: int
    total: int


Along = Callable[[Step], None]


class Move:
    """One move, from a store with a name to another."""

    def __init__(self, source: Store, target: Store, *, origin: str, destination: str) -> None:
        self._source = source
        self._target = target
        self._origin = origin
        self._destination = destination
        self._clerk = Clerk(source, dice=lambda: 0.5, token=lambda: 1)

    def run(self, *, grace: float, along: Along) -> int:
        """Move; gives the number of jobs that are in the new store then.

        What still runs in the old store after `grace` seconds is treated as lost there.
        """
        if not self._is_over():
            self._prepare()
            self._copy_live(along)
            self._close(grace, along)
            self._copy_rest(along)
            self._open_target()
        return _size(self._target)

    def abandon(self) -> None:
        """Leave everything as it was: the old store works again, the new one is emptied.

        Also for an old store whose jobs are not where they went: it still has them.
        """
        filling = self._noted(self._target, ORIGIN) == self._origin
        if not filling and not self._is_stranded():
            raise BadInput(
                f"no move from {self._origin} to {self._destination} is under way: there is "
                "nothing to abandon"
            )
        if filling:
            for page in pages(self._target, Filter()):
                self._target.transact([Change(deletes=(job,)) for job in page])
        # What says that there is a move to abandon goes last.
        self._source.transact([UNSEALED | _forgetting(DESTINATION)])
        if filling:
            self._target.transact([UNSEALED | _forgetting(ORIGIN)])

    # -- before ----------------------------------------------------------------------------

    def _is_over(self) -> bool:
        arrived = self._noted(self._source, DESTINATION)
        if arrived not in (None, self._destination):
            raise BadInput(f"{self._origin} has moved to {arrived} already; move from there")
        if self._is_stranded():
            raise StokerError(
                f"{self._origin} has moved to {self._destination}, but its jobs are not there "
                "(any more): is that another store by the same name, or was it emptied? "
                f"{self._origin} still has them; abandon the move (--abandon), and it works again"
            )
        return arrived is not None and self._noted(self._target, ORIGIN) is None

    def _is_stranded(self) -> bool:
        """Has the old store moved, and the new one never heard of it?"""
        traces = (self._noted(self._target, key) for key in (ORIGIN, ARRIVED))
        return self._noted(self._source, DESTINATION) == self._destination and not any(traces)

    def _prepare(self) -> None:
        filling = self._noted(self._target, ORIGIN)
        if filling not in (None, self._origin):
            raise BadInput(
                f"{self._destination} is being filled from {filling}; let that end first"
            )
        if filling is None and _size(self._target):
            raise BadInput(
                f"{self._destination} holds jobs already: move into a store that is empty"
            )
        why = f"{self._destination} is still being filled from {self._origin}; use that until then"
        self._target.transact([sealed(Seal(why)) | _noting(ORIGIN, self._origin)])

    # -- copying ---------------------------------------------------------------------------

    def _copy_live(self, along: Along) -> None:
        for round_ in range(_LIVE_PASSES):
            if self._copy(f"copying, round {round_ + 1}", along) < _FEW:
                return

    def _copy_rest(self, along: Along) -> None:
        while self._copy("copying the rest", along):
            pass
        here, there = _views(self._source), _views(self._target)
        odd = sorted(
            name for name in here.keys() | there.keys() if here.get(name) != there.get(name)
        )
        if odd:
            raise StokerError(
                f"the queues {', '.join(odd)} do not look the same in both stores; nothing is "
                "lost, for the old store has everything: run the move again"
            )

    def _copy(self, what: str, along: Along) -> int:
        """Make the new store like the old one as it is now; how much had to be done?"""
        changed = self._copy_settings() + self._copy_notes()
        seen, total = 0, _size(self._source)
        for page in pages(self._source, Filter()):
            there = self._target.get([job.id for job in page])
            news = [job for job in page if there.get(job.id) != job]
            if news:
                self._target.adopt(news)
            changed += len(news)
            seen += len(page)
            along(Step(what, seen, max(seen, total)))
        return changed + self._drop_vanished()

    def _drop_vanished(self) -> int:
        dropped = 0
        for page in pages(self._target, Filter()):
            here = self._source.get([job.id for job in page])
            gone = [job for job in page if job.id not in here]
            if gone:
                self._target.transact([Change(deletes=(job,)) for job in gone])
            dropped += len(gone)
        return dropped

    def _copy_settings(self) -> int:
        there = {view.name: view.settings for view in self._target.survey()}
        news = [
            (view.name, view.settings)
            for view in self._source.survey()
            if there.get(view.name, DEFAULTS) != view.settings
        ]
        if news:
            self._target.transact([Change(queues=tuple(news))])
        return len(news)

    def _copy_notes(self) -> int:
        here, there = _notes(self._source), _notes(self._target)
        writes = [
            NoteWrite(key, note.value, note.until)
            for key, note in here.items()
            if key not in there or not _same(note, there[key])
        ]
        writes += [NoteWrite(key, None) for key in there.keys() - here.keys()]
        if writes:
            self._target.transact([Change(notes=tuple(writes))])
        return len(writes)

    # -- switching -------------------------------------------------------------------------

    def _close(self, grace: float, along: Along) -> None:
        why = f"the jobs of {self._origin} have moved to {self._destination}; open that store"
        self._source.transact([sealed(Seal(why)) | _noting(DESTINATION, self._destination)])
        most = len(self._running())
        deadline = time.monotonic() + grace
        while (running := len(self._running())) and time.monotonic() < deadline:
            most = max(most, running)
            along(Step("waiting for what runs", most - running, most))
            time.sleep(_LOOK_SECONDS)
        self._revoke()
        self._source.transact([sealed(Seal(why, shut=True))])

    def _running(self) -> list[Job]:
        return self._source.find(Filter(states=(State.RUNNING,), limit=PAGE))

    def _revoke(self) -> None:
        while running := self._running():
            now = self._source.now()
            self._clerk.attempt(
                [
                    rules.lose(
                        job,
                        now=now,
                        dice=self._clerk.dice(),
                        evidence="it was still running when its store moved",
                        settings=self._clerk.settings(job.queue),
                    )
                    for job in running
                ]
            )

    def _open_target(self) -> None:
        self._target.transact([UNSEALED | _forgetting(ORIGIN) | _noting(ARRIVED, self._origin)])

    @staticmethod
    def _noted(store: Store, key: str) -> str | None:
        note = store.notes([key]).get(key)
        return None if note is None else note.value.decode()


def _views(store: Store) -> dict[str, QueueView]:
    """The queues that matter: empty ones that nobody configured come and go."""
    views = store.survey()
    return {v.name: v for v in views if any(v.counts.values()) or v.settings != DEFAULTS}


def _size(store: Store) -> int:
    return sum(sum(view.counts.values()) for view in store.survey())


def _notes(store: Store) -> dict[str, Note]:
    return {key: note for key, note in store.notes().items() if key not in _OURS}


def _same(one: Note, other: Note) -> bool:
    return (one.value, one.until) == (other.value, other.until)


def _noting(key: str, value: str) -> Change:
    return Change(notes=(NoteWrite(key, value.encode()),))


def _forgetting(key: str) -> Change:
    return Change(notes=(NoteWrite(key, None),))
