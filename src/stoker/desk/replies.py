"""Answers from outside: each finds the job that waits for it, or is kept a while."""

from __future__ import annotations

import enum

import msgspec

from stoker.desk.clerk import Clerk
from stoker.errors import Contended, IllegalMove, NotFound
from stoker.kernel import answers, rules
from stoker.kernel.answers import REMEMBERED, Early, Over, kept_under
from stoker.kernel.change import NOTHING, Change, NoteWrite
from stoker.kernel.facts import check_name
from stoker.kernel.job import REPLY_PREFIX, Job, State
from stoker.store import Filter

# Among the answers, so that every engine guards it together with the job that is answered.
_ONCE = REPLY_PREFIX + "\x1f"
_KEPT = 60 * 1_000_000
_REPLACE = msgspec.structs.replace


class Reply(enum.Enum):
    """What became of an answer from outside.

    >>> from stoker import Desk, open_store
    >>> desk = Desk(open_store("memory:"))
    >>> [desk.control.reply("payment 7", b"true").name for _ in range(2)]
    ['KEPT', 'REPEATED']
    """

    DELIVERED = "delivered"
    KEPT = "kept"
    """Nobody waits for it yet; it is kept for a minute."""
    LATE = "late"
    """Its job waits for it no longer: there was no answer in time, or the job was cancelled."""
    REPEATED = "repeated"
    """This very answer was taken already, its question is answered, or one with its key is kept."""


class Replies:
    """Takes answers to where they belong."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def give(self, key: str, answer: bytes, once: str | None = None) -> Reply:
        """Give an answer to the job that waits for it, or keep it.

        `once` is what its sender knows the answer by, who may have to send it again: for ten
        minutes it is not taken twice, even if somebody waits for the same key once more.
        """
        check_name("key", key)
        if once is not None and self._is_known(once):
            return Reply.REPEATED
        mark = NOTHING if once is None else self._mark(once)
        try:
            if self._deliver(key, answer, mark):
                return Reply.DELIVERED
        except Contended:
            if once is not None and self._is_known(once):
                return Reply.REPEATED  # its twin came through another door just now
            raise
        return self._keep(key, answer, mark)

    def expect(self, key: str) -> None:
        """Forget what was kept with this key, and the question it may have been for."""
        check_name("key", key)
        there = self._clerk.store.notes(answers.names(key))
        if there:
            self._clerk.transact([Change(notes=tuple(NoteWrite(name, None) for name in there))])

    def _keep(self, key: str, answer: bytes, mark: Change) -> Reply:
        """Also one that seems late: a job that runs by now may have asked the same, and overtook
        its own wait. `Over.lets` says who may take it."""
        before, now = self._there(key), self._clerk.store.now()
        over, name = before.over, kept_under(key)
        if before.kept is not None and (over is None or over.late_at is None):
            return Reply.REPEATED
        keep = Change(notes=(NoteWrite(name, answer, now + _KEPT, expect=before.guard),))
        word = Reply.KEPT if over is None else self._standing(over)
        if over is not None:
            late_at, until = None if word is Reply.KEPT else now, max(over.until, now + REMEMBERED)
            keep |= answers.known(key, _REPLACE(over, late_at=late_at, until=until))
        if not self._clerk.transact([keep | mark]).receipts[0].ok:
            return Reply.REPEATED
        # A job may have begun to wait before the note was there and after we looked.
        if self._deliver(key, answer, NOTHING):
            self._clerk.attempt([Change(notes=(NoteWrite(name, None),))])
            return Reply.DELIVERED
        return word

    def _there(self, key: str) -> Early:
        return answers.found(key, self._clerk.store.notes(answers.names(key)))

    def _standing(self, over: Over) -> Reply:
        """What is to be said to an answer after a question with its key."""
        job = self._clerk.store.get([over.job_id]).get(over.job_id)
        if job is not None and (over.goes_on(job) or _may_ask(job)):
            return Reply.KEPT
        return Reply.REPEATED if over.answered else Reply.LATE

    def _deliver(self, key: str, answer: bytes, mark: Change) -> bool:
        waiting = Filter(states=(State.WAITING,), waits_for=REPLY_PREFIX + key, limit=1)
        for job in self._clerk.store.find(waiting):
            try:
                self._clerk.decide(job.id, lambda copy: self._answered(copy, key, answer) | mark)
            except (IllegalMove, NotFound):
                return False
            return True
        return False

    def _answered(self, job: Job, key: str, answer: bytes) -> Change:
        if job.waits_for != REPLY_PREFIX + key:
            raise IllegalMove(f"job {job.id} no longer waits for {key!r}")
        over = answers.answered(job, key, now=self._clerk.store.now())
        return rules.wake(job, reply=answer) | over

    def _is_known(self, once: str) -> bool:
        return bool(self._clerk.store.notes([_ONCE + once]))

    def _mark(self, once: str) -> Change:
        until = self._clerk.store.now() + REMEMBERED
        return Change(notes=(NoteWrite(_ONCE + once, b"1", until, expect=0),))


def _may_ask(job: Job) -> bool:
    """Does its handler run, in another try than that of its last question?"""
    return job.state is State.RUNNING and not job.undecided
