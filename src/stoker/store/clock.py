"""The clock of engines that have none of their own."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def wall_clock() -> int:
    """Now, in UTC microseconds."""
    return time.time_ns() // 1000
