"""What may be asked of jobs and queues from outside."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from stoker.desk.clerk import Clerk, Decision, Result
from stoker.errors import IllegalMove, NotFound, Refused
from stoker.kernel import control, rules
from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.job import REPLY_PREFIX, Job, State
from stoker.kernel.queue import QueueSettings
from stoker.store import Filter

_REPLY_KEPT = 60 * 1_000_000


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
    REPEATED = "repeated"
    """An answer with this key is kept already; this one was ignored."""


class Control:
    """Cancelling, reviving, editing, deleting, answering; and the settings of queues."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def cancel(self, job_id: int) -> Job:
        """Cancel a job that has not started; ask a running one to stop."""
        return self._clerk.decide(job_id, self._cancelled)

    def cancel_many(self, job_ids: Iterable[int]) -> list[Result]:
        """Cancel jobs, each on its own, in one durable step."""
        return self._many(job_ids, self._cancelled)

    def _cancelled(self, job: Job) -> Change:
        now, settings = self._clerk.store.now(), self._clerk.settings(job.queue)
        return control.cancel(job, now=now, settings=settings)

    def revive(self, job_id: int) -> Job:
        """Run an ended job afresh."""
        return self._clerk.decide(job_id, self._revived)

    def revive_many(self, job_ids: Iterable[int]) -> list[Result]:
        """Run ended jobs afresh, each on its own, in one durable step."""
        return self._many(job_ids, self._revived)

    def _revived(self, job: Job) -> Change:
        return control.revive(job, now=self._clerk.store.now())

    def edit(self, job_id: int, changes: dict[str, Any], *, revision: int | None = None) -> Job:
        """Change a job; with `revision`, only if it is still the one that was seen."""

        def rule(job: Job) -> Change:
            if revision not in (None, job.revision):
                raise Refused(
                    f"job {job_id} has changed since you saw it (revision {job.revision}, not "
                    f"{revision}); read it again"
                )
            return control.edit(job, changes)

        return self._clerk.decide(job_id, rule)

    def delete(self, job_id: int) -> Job:
        """Remove all trace of a job that is not running; returns what it was."""
        return self._clerk.decide(job_id, control.delete)

    def delete_many(self, job_ids: Iterable[int]) -> list[Result]:
        """Remove jobs that are not running, each on its own, in one durable step."""
        return self._many(job_ids, control.delete)

    def _many(self, job_ids: Iterable[int], rule: Callable[[Job], Change]) -> list[Result]:
        return self._clerk.decide_all([Decision(job_id, rule) for job_id in job_ids]).results

    def reply(self, key: str, answer: bytes) -> Reply:
        """An answer from outside: it goes to the job that waits for it, or is kept a while."""
        if self._deliver(key, answer):
            return Reply.DELIVERED
        kept = NoteWrite(
            REPLY_PREFIX + key, answer, self._clerk.store.now() + _REPLY_KEPT, expect=0
        )
        if not self._clerk.transact([Change(notes=(kept,))]).receipts[0].ok:
            return Reply.REPEATED
        # A job may have begun to wait before the note was there and after we looked.
        if self._deliver(key, answer):
            self._clerk.attempt([Change(notes=(NoteWrite(kept.key, None),))])
            return Reply.DELIVERED
        return Reply.KEPT

    def _deliver(self, key: str, answer: bytes) -> bool:
        waiting = Filter(states=(State.WAITING,), waits_for=REPLY_PREFIX + key, limit=1)
        for job in self._clerk.store.find(waiting):
            try:
                self._clerk.decide(job.id, lambda copy: _answered(copy, key, answer))
            except (IllegalMove, NotFound):
                return False
            return True
        return False

    def configure(self, queue: str, settings: QueueSettings) -> None:
        """Give a queue its settings, in force at once and for everybody."""
        self._clerk.transact([Change(queues=((queue, settings),))])
        self._clerk.forget_settings(queue)

    def adjust(self, queue: str, **changes: Any) -> QueueSettings:
        """Change some of a queue's settings and keep the rest."""
        self._clerk.forget_settings(queue)
        settings = msgspec.structs.replace(self._clerk.settings(queue), **changes)
        self.configure(queue, settings)
        return settings


def _answered(job: Job, key: str, answer: bytes) -> Change:
    if job.waits_for != REPLY_PREFIX + key:
        raise IllegalMove(f"job {job.id} no longer waits for {key!r}")
    return rules.wake(job, reply=answer)
