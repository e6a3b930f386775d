"""How long ended jobs are kept: a setting of a queue, or of a single job's policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stoker.errors import BadInput
from stoker.kernel.duration import is_time

if TYPE_CHECKING:  # a job has a policy, and a policy may have a retention
    from stoker.kernel.job import State

HOUR = 3600 * 1_000_000


class Retention(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long ended jobs are kept, in microseconds: 0 not at all, None for ever.

    >>> from stoker import State
    >>> Retention(finished=0, failed=None).of(State.CANCELLED) == 24 * HOUR
    True
    """

    finished: int | None = HOUR
    failed: int | None = 30 * 24 * HOUR
    cancelled: int | None = 24 * HOUR

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            kept = getattr(self, name)
            if kept is not None and not is_time(kept):
                raise BadInput(
                    f"retention.{name} must be from 0 to 1,000 years, in whole microseconds; use "
                    "0 to keep nothing and None to keep for ever"
                )

    def of(self, state: State) -> int | None:
        """How long a job is kept that ended so."""
        if state.name == "FINISHED":
            return self.finished
        return self.failed if state.name == "FAILED" else self.cancelled
