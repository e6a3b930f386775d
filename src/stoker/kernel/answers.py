"""Which question an answer from outside belongs to, as far as that can be known.

A key says what an answer is about, not which try asked. So when a question is over (answered, or
its job waits for it no longer) that is written down for a while, beside the answers that are kept.
An answer that comes after that is not for those who ask again later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from stoker.kernel.change import NOTHING, Change, Note, NoteWrite
from stoker.kernel.job import REPLY_PREFIX, RUNNING, WAITING, Job

REMEMBERED = 10 * 60 * 1_000_000
"""So long it is known that a question is over, or that a message was taken."""

# Among the answers, so that every engine guards it together with the job that asked.
_OVER = REPLY_PREFIX + "\x1e"


class Over(msgspec.Struct, frozen=True):
    """A question that is over: whose it was, and in which try."""

    job_id: int
    attempt: int
    scheduled_at: int
    answered: bool
    until: int
    """So long it is known."""
    late_at: int | None = None
    """When the answer that is kept came, if it came too late for this question."""

    def goes_on(self, job: Job) -> bool:
        """Is this the job that got the answer, still in the same try? Then more may follow."""
        resting = job.state not in (RUNNING, WAITING)
        attempt = job.attempt + resting  # it is counted again when the try goes on
        asked = (self.job_id, self.attempt, self.scheduled_at)
        same = asked == (job.id, attempt, job.scheduled_at)
        return self.answered and same and not job.ended and not job.undecided

    def lets(self, job: Job) -> bool:
        """May this job take the answer that is kept? If it came late only one may that had begun
        by then: it may have asked the same, and the answer overtook its wait."""
        if self.late_at is None:
            return True
        began = job.started_at or 0
        return job.id != self.job_id and began <= self.late_at


class Early(NamedTuple):
    """What is there of a key when a job begins to wait for it."""

    kept: Note | None = None
    """An answer that came while nobody waited."""
    over: Over | None = None
    """The last question that was asked with this key."""

    def taken_by(self, job: Job) -> bytes | None:
        """The answer, if it is for this job."""
        if self.kept is None or (self.over is not None and not self.over.lets(job)):
            return None
        return self.kept.value

    @property
    def guard(self) -> int:
        """The revision of what is kept; 0 if nothing is."""
        return 0 if self.kept is None else self.kept.revision


NOTHING_EARLY = Early()


def kept_under(key: str) -> str:
    """The note that holds an answer that nobody waits for."""
    return REPLY_PREFIX + key


def names(key: str) -> tuple[str, str]:
    """The notes there may be of a key."""
    return kept_under(key), _OVER + key


def found(key: str, notes: Mapping[str, Note]) -> Early:
    """What these notes tell of a key."""
    kept, over = map(notes.get, names(key))
    return Early(kept, None if over is None else msgspec.json.decode(over.value, type=Over))


def known(key: str, over: Over) -> Change:
    """Let a question be known to be over, for a while."""
    return Change(notes=(NoteWrite(_OVER + key, msgspec.json.encode(over), over.until),))


def answered(job: Job, key: str, *, now: int) -> Change:
    """The job has its answer."""
    return _over(job, key, now, answered=True)


def unanswered(job: Job, *, now: int, again_at: int | None = None) -> Change:
    """The job waits no longer, for an answer that did not come; it may ask again."""
    if job.state is not WAITING or not (job.waits_for or "").startswith(REPLY_PREFIX):
        return NOTHING
    key = (job.waits_for or "").removeprefix(REPLY_PREFIX)
    return _over(job, key, max(now, again_at or 0), answered=False)


def _over(job: Job, key: str, now: int, *, answered: bool) -> Change:
    until = now + REMEMBERED
    return known(key, Over(job.id, job.attempt, job.scheduled_at, answered, until))
