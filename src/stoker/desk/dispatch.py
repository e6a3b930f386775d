"""Handing jobs out."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.desk.clerk import Clerk
from stoker.desk.opening import Opening
from stoker.errors import SessionLost
from stoker.kernel import rules
from stoker.kernel.duration import check_time
from stoker.kernel.facts import check_name
from stoker.kernel.glob import check_pattern, is_glob
from stoker.kernel.job import Job
from stoker.kernel.ranges import check_range
from stoker.kernel.window import is_open
from stoker.store import MOST_AT_ONCE, Beat, Claim, Session


class Dispatch:
    """Claims, and the sessions under which workers claim."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk
        self.opening = Opening(clerk)

    def claim(
        self,
        queues: Sequence[str],
        limit: int = 1,
        *,
        session: int | None = None,
        visibility: int | None = None,
    ) -> list[Job]:
        """Up to `limit` due jobs of the named queues (GLOB patterns allowed), best first."""
        request = self.request(queues, limit, session=session, visibility=visibility)
        return self.granted(self._clerk.transact((), [request]).grants[0])

    def request(
        self,
        queues: Sequence[str],
        limit: int,
        *,
        session: int | None = None,
        visibility: int | None = None,
    ) -> Claim:
        """A claim to be sent along with other business."""
        check_range("the limit of a claim", limit, 1, MOST_AT_ONCE, whole=True)
        if visibility is not None:
            check_time("visibility", visibility)
        names = self.opening.claimable(self.named(queues))
        return Claim(names, limit, self._clerk.token(), session, visibility)

    def named(self, queues: Sequence[str]) -> tuple[str, ...]:
        """The queues that are meant: names as they are, patterns by what matches them now."""
        return tuple(name for queue in queues for name in self._named(queue))

    def granted(self, grant: Sequence[Job] | None) -> list[Job]:
        """The jobs that may really start now: those whose window, or whose queue, has closed go
        back."""
        if grant is None:
            raise SessionLost("this worker was taken for dead; open a new session")
        misplaced = self.opening.misplaced(grant)
        if not misplaced and all(job.policy.windows is None for job in grant):
            return list(grant)
        now = self._clerk.store.now()
        late = {job.id for job in grant if not _may_start(job, now)}
        back = [
            rules.release(job, now=now, due_at=now if job.id in late else None)
            for job in grant
            if job.id in late | misplaced
        ]
        self._clerk.attempt(back)
        return [job for job in grant if job.id not in late | misplaced]

    def next_due(self, queues: Sequence[str], after: int | None = None) -> int | None:
        """When there may be something to claim of these queues (GLOB patterns allowed), after a
        moment (now)."""
        return self.opening.next_due(self.named(queues), after)

    def _named(self, queue: str) -> Sequence[str]:
        check_name("the name of a queue", queue)
        if not is_glob(queue):
            return (queue,)
        check_pattern(queue)
        return self._clerk.store.names(queue)

    def open_session(self, name: str = "", info: str = "{}", *, ttl: int) -> int:
        """Begin a worker's session; without beats it is dead after `ttl` microseconds."""
        check_time("ttl", ttl)
        session = Session(self._clerk.token(), name, info)
        self._clerk.store.enrol(session, ttl)
        return session.id

    def say_anew(self, session: Session, *, ttl: int) -> None:
        """Under a session that lives, say something else of the worker."""
        self._clerk.store.enrol(session, ttl)

    def beat(self, session: int, *, ttl: int, watch: bool = False) -> Beat:
        """Say that the worker lives; learn which of its jobs are to be cancelled and, if it keeps
        watch, whether there are chores to do."""
        check_time("ttl", ttl)
        return self._clerk.store.beat(session, ttl, watch=watch)

    def close_session(self, session: int) -> None:
        """End a session. Jobs it still holds are lost at once and will be recovered."""
        self._clerk.store.retire(session)


def _may_start(job: Job, now: int) -> bool:
    return job.policy.windows is None or is_open(job.policy.windows, now)
