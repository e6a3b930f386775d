"""Lives in which jobs end now and then for no reason, so that there is room again."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.kernel.job import Job
from tests.model.lives import Lives


class EndingLives(Lives):
    """Some of those that are held end, the oldest first."""

    ends: Sequence[int]
    """As many at once."""

    def finish_some(self) -> None:
        """So that there is room again."""
        held = [job for job in self.jobs() if job.token is not None]
        for job in held[: self.pick(self.ends)]:
            self._finish(job)

    def _finish(self, job: Job) -> None:
        self.both(lambda desk: desk.report.finish(job))
