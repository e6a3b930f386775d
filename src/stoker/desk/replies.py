"""Answers from outside: each finds the job that waits for it, or is kept a while."""

from __future__ import annotations

import enum

from stoker.desk.clerk import Clerk
from stoker.errors import Contended, IllegalMove, NotFound
from stoker.kernel import rules
from stoker.kernel.change import NOTHING, Change, NoteWrite
from stoker.kernel.facts import check_text
from stoker.kernel.job import REPLY_PREFIX, Job, State
from stoker.store import Filter

_KEPT = 60 * 1_000_000
_REMEMBERED = 10 * 60 * 1_000_000
# Among the answers, so that every engine guards it together with the job that is answered.
_ONCE = REPLY_PREFIX + "\x1f"


class Reply(enum.Enum):
    """What became of an answer from outside.

    >>> from stoker import Desk, open_store
    >>> desk = Desk(open_store("memory:"))
    >>> [desk.control.reply("payment 7", b"true").name for _ in range(2)]
    ['KEPT', 'REPEATED']
    """

    DELIVERED = "delivered"
    KEPT = "kept"
    """Nobody waits for it, not yet or not any more; it is kept for a minute."""
    REPEATED = "repeated"
    """This very answer was taken already, or one with its key is kept; it was ignored."""


class Replies:
    """Takes answers to where they belong."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def give(self, key: str, answer: bytes, once: str | None = None) -> Reply:
        """Give an answer to the job that waits for it, or keep it.

        `once` is what its sender knows the answer by, who may have to send it again: for ten
        minutes it is not taken twice, even if somebody waits for the same key once more.
        """
        check_text("key", key)
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

    def _keep(self, key: str, answer: bytes, mark: Change) -> Reply:
        note = NoteWrite(REPLY_PREFIX + key, answer, self._clerk.store.now() + _KEPT, expect=0)
        if not self._clerk.transact([Change(notes=(note,)) | mark]).receipts[0].ok:
            return Reply.REPEATED
        # A job may have begun to wait before the note was there and after we looked.
        if self._deliver(key, answer, NOTHING):
            self._clerk.attempt([Change(notes=(NoteWrite(note.key, None),))])
            return Reply.DELIVERED
        return Reply.KEPT

    def _deliver(self, key: str, answer: bytes, mark: Change) -> bool:
        waiting = Filter(states=(State.WAITING,), waits_for=REPLY_PREFIX + key, limit=1)
        for job in self._clerk.store.find(waiting):
            try:
                self._clerk.decide(job.id, lambda copy: _answered(copy, key, answer) | mark)
            except (IllegalMove, NotFound):
                return False
            return True
        return False

    def _is_known(self, once: str) -> bool:
        return bool(self._clerk.store.notes([_ONCE + once]))

    def _mark(self, once: str) -> Change:
        until = self._clerk.store.now() + _REMEMBERED
        return Change(notes=(NoteWrite(_ONCE + once, b"1", until, expect=0),))


def _answered(job: Job, key: str, answer: bytes) -> Change:
    if job.waits_for != REPLY_PREFIX + key:
        raise IllegalMove(f"job {job.id} no longer waits for {key!r}")
    return rules.wake(job, reply=answer)
