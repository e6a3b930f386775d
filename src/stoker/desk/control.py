"""What may be asked of jobs and queues from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from stoker.desk.clerk import Clerk, Decision, Result
from stoker.desk.replies import Replies, Reply
from stoker.desk.settings import Settings
from stoker.errors import Refused
from stoker.kernel import control
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings


class Control:
    """Cancelling, reviving, editing, deleting, answering; and the settings of queues."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk
        self._replies = Replies(clerk)
        self.settings = Settings(clerk)

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

    def reply(self, key: str, answer: bytes, *, once: str | None = None) -> Reply:
        """An answer from outside: it goes to the job that waits for it, or is kept a while. One
        that comes again by the same `once` is not taken twice."""
        return self._replies.give(key, answer, once)

    def expect_reply(self, key: str) -> None:
        """A question with this key is about to be sent: what came before is no answer to it."""
        self._replies.expect(key)

    def configure(self, queue: str, settings: QueueSettings) -> None:
        """Give a queue its settings, in force at once and for everybody."""
        self.settings.change(queue, lambda _: settings)

    def adjust(self, queue: str, **changes: Any) -> QueueSettings:
        """Change some of a queue's settings and keep the rest; gives what they are then."""
        if not changes:
            return self.settings.of(queue)
        return self.settings.change(
            queue, lambda before: msgspec.structs.replace(before, **changes)
        )
