"""Taking in jobs at a pace: the first call of a period, or the last before it is quiet.

Which job is the first one of a period is kept in a note, beside the jobs: it counts also when the
job has ended and is forgotten. The note is put in the same step as the job, so that of two callers
only one can; the job's id, unknown until then, is written into it right after. If nobody came to do
that, the job is found by its unique key.
"""

from __future__ import annotations

from stoker.desk.clerk import Clerk, twin_error
from stoker.desk.intake import Placement, Twin
from stoker.errors import BadInput, Contended, Duplicate
from stoker.kernel import control, pacing
from stoker.kernel.change import Change, Note, NoteWrite
from stoker.kernel.job import ENDED, LIVE, Job, State
from stoker.kernel.pacing import Debounce, OncePer, Pace
from stoker.store import Filter

_FIRST = "once-per:"
_ROUNDS = 100  # many callers at once, all about the same job, are what it is for


class Pacing:
    """Enqueuing what others may be enqueuing, too."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def enqueue(self, job: Job, pace: Pace, *, twin: Twin = Twin.RETURN) -> Placement:
        """Take in one job at its pace; it is durable when this returns.

        A call that came too early (`OncePer`) gets the first one's id, or is refused with
        `Twin.REJECT`. With `Debounce` it takes the place of the job that has not begun.
        """
        pacing.check_pace(job, pace)
        if isinstance(pace, OncePer):
            if twin is Twin.UPDATE:
                raise BadInput("once_per keeps the first call as it is; to keep the last, debounce")
            return self._once(job, pace, twin)
        if twin is Twin.REJECT:
            raise BadInput("debounce takes the place of a job that is there; it cannot be refused")
        return self._debounce(job, pace)

    def _debounce(self, job: Job, pace: Debounce) -> Placement:
        for _ in range(_ROUNDS):
            there = self._newest(job, LIVE)
            change = pacing.debounce(job, there, pace, now=self._clerk.store.now())
            receipt = self._clerk.transact([change]).receipts[0]
            if receipt.ok and there is not None and not receipt.ids:
                return Placement(there.id, fresh=False)
            if receipt.ok:
                return Placement(receipt.ids[0], fresh=True)
        raise Contended("the job with this unique key keeps changing; try again")

    def _once(self, job: Job, pace: OncePer, twin: Twin) -> Placement:
        key = f"{_FIRST}{job.unique_key}"
        for _ in range(_ROUNDS):
            note = self._clerk.store.notes([key]).get(key)
            first = self._first(job, note)
            if first is not None:
                return _stands_for(first, twin)
            now = self._clerk.store.now()
            mark = NoteWrite(key, b"", now + pace.period, 0 if note is None else note.revision)
            change = control.enqueue(job, now=now, due_at=job.due_at or None)
            receipt = self._clerk.transact([change | Change(notes=(mark,))]).receipts[0]
            if receipt.ok:
                self._name_first(mark, receipt.ids[0])
                return Placement(receipt.ids[0], fresh=True)
            if receipt.twins:
                return _stands_for(twin_error(receipt).existing_id, twin)
        raise Contended("the job with this unique key keeps changing; try again")

    def _first(self, job: Job, note: Note | None) -> int | None:
        """The job that stands for this one: that of the note, or else one that lives."""
        if note is not None and note.value:
            return int(note.value)
        there = self._newest(job, LIVE)
        if there is None and note is not None:
            there = self._newest(job, ENDED)  # a search, but hardly ever
        return None if there is None else there.id

    def _name_first(self, mark: NoteWrite, job_id: int) -> None:
        assert mark.expect is not None
        named = NoteWrite(mark.key, b"%d" % job_id, mark.until, mark.expect + 1)
        self._clerk.transact([Change(notes=(named,))])

    def _newest(self, job: Job, states: frozenset[State]) -> Job | None:
        """The newest job in one of these states that has the unique key."""
        twins = Filter(states=tuple(states), unique_key=job.unique_key, newest_first=True, limit=1)
        return next(iter(self._clerk.store.find(twins)), None)


def _stands_for(first: int, twin: Twin) -> Placement:
    if twin is Twin.REJECT:
        raise Duplicate(
            f"job {first} was the first with this unique key, and stands for this one",
            existing_id=first,
        )
    return Placement(first, fresh=False)
