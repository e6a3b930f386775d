"""Which partition a job or a Change belongs to, where there are several.

A job has one home for life; its id tells it. It lives with its parent. Else its unique key or its
reference decides, so that twins meet; else its queue, if that is limited, or the one that it is
within, so that the limit is kept in one place; else nobody does, and it goes where it is least in
the way. If two of these disagree the job is refused: no partition could keep both promises.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from zlib import crc32

from stoker.errors import Scattered
from stoker.kernel.change import Change, kinds
from stoker.kernel.job import Job, partition_of
from stoker.kernel.queue import QueueSettings
from stoker.store.twins import names_held

# The runs of a schedule are named after it, and made in one step with its next date.
_RUN = re.compile(r"(\d+)@")


def anchor(queue: str, settings: QueueSettings) -> str | None:
    """The queue by whose name jobs of this one find together; None: they need not."""
    if settings.within is not None:
        return settings.within
    return queue if settings.limited else None


class Homes:
    """Finds homes among so many partitions."""

    def __init__(self, partitions: int, anchor_of: Callable[[str], str | None]) -> None:
        self.partitions = partitions
        self._anchor_of = anchor_of

    def of_queue(self, queue: str) -> int:
        """Where the jobs of a limited queue live, and of those within it."""
        return crc32(queue.encode()) % self.partitions

    def of_name(self, name: tuple[str, str]) -> int:
        """Where a unique key or a reference is looked after."""
        kind, text = name
        run = _RUN.match(text) if kind == "ref" else None
        if run is not None and partition_of(int(run[1])) < self.partitions:
            return partition_of(int(run[1]))
        return crc32(f"{kind}{text}".encode()) % self.partitions

    def of_new(self, job: Job) -> int | None:
        """Where a new job must live; None if that does not matter."""
        names = names_held(job)
        wanted = {f"its {kind} {text!r}": self.of_name((kind, text)) for kind, text in names}
        if job.parent_id is not None:
            wanted["its parent"] = partition_of(job.parent_id)
        held_by = self._anchor_of(job.queue)
        if held_by is not None:
            wanted[f"the limited queue {job.queue!r}"] = self.of_queue(held_by)
        if len(set(wanted.values())) > 1:
            raise Scattered(
                f"a job for {job.queue!r} cannot live in one partition: {_told(wanted)}; leave one "
                "of these out, or use a store with ?partitions=1"
            )
        return next(iter(wanted.values()), None)

    def of_change(self, change: Change) -> set[int]:
        """Where a Change has to be carried out; empty if anywhere will do."""
        touched = [write.job.id for write in change.writes]
        touched += [job.id for job in change.deletes]
        touched += [touch.id for touch in change.touches]
        touched += [tally.parent_id for tally in change.tallies]
        homes = {partition_of(job_id) for job_id in touched}
        new = (self.of_new(job) for job in kinds(change.inserts))
        return homes | {home for home in new if home is not None}

    def check_names(self, change: Change) -> None:
        """Refuse new names for jobs that live elsewhere than the names do."""
        for write in change.writes:
            name = write.set.get("unique_key")
            if name is not None and self.of_name(("unique", name)) != partition_of(write.job.id):
                raise Scattered(
                    f"job {write.job.id} cannot take the unique key {name!r}: it is looked after "
                    "in another partition; enqueue a new job with it instead"
                )


def _told(wanted: dict[str, int]) -> str:
    return ", ".join(f"{what} lives in partition {home}" for what, home in wanted.items())
