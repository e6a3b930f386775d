"""Queues, types and jobs as an application describes them: as a value, or as a dict."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from stoker.errors import BadInput
from stoker.kernel.duration import micros
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order
from stoker.kernel.retry import Custom
from stoker.kernel.window import Windows, parse_windows

T = TypeVar("T")

TimeWindows = str | list[tuple[str, str]]
"""A text such as `05:00-07:00, 22:00-23:00 in Europe/Berlin`, or pairs of times of day in UTC."""

_NAME = re.compile("[a-z_]+")


class SortOrder(enum.Enum):
    """Which of two jobs that are due goes first."""

    TIME_PRIORITY = "time_priority"
    PRIORITY_TIME = "priority_time"

    @property
    def order(self) -> Order:
        """The same as a setting of a queue."""
        return Order.TIME_RANK if self is SortOrder.TIME_PRIORITY else Order.RANK_TIME


class JobType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of job, and what its jobs are like unless they say otherwise. Times in seconds."""

    job_type: str
    default_timeout: float = 86_400
    default_priority: int = 100
    """Lower runs first."""
    default_throttle_factor: float = 1
    default_time_windows: TimeWindows = ""
    critical: bool = False
    """Are its jobs neither counted against the queue's limit nor held by it?"""


class QueueDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One queue."""

    throttle_limit: float = 0
    """The most that the throttle factors of its running jobs add up to; below 1: no limit."""
    sort_order: SortOrder = SortOrder.TIME_PRIORITY
    job_types: list[JobType] = []
    settings: dict[str, Any] = {}
    """What else a queue of Stoker can be told, such as `shares` or `key_capacity`."""


class JobDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One job. What is left out is as its type says."""

    job_type: str
    job_data: Any = None
    job_key: str | None = None
    """What its answer is known by; by default its id."""
    timeout: float | None = None
    scheduled_run_time: datetime | None = None
    priority: int | None = None
    throttle_factor: float | None = None
    throttle_key: str | None = None
    """Whom it is for (region, server): the unit of limits and shares by key."""
    time_windows: TimeWindows | None = None
    critical: bool | None = None


def read(said: T | Mapping[str, Any], kind: type[T]) -> T:
    """A definition, of which a dict is as good as the value."""
    if isinstance(said, kind):
        return said
    try:
        return msgspec.convert(said, kind)
    except ValueError as error:  # also text that is not whole
        what = " ".join(re.findall("[A-Z][a-z]+", kind.__name__)).lower()
        raise BadInput(f"the {what} cannot be read: {error}") from error


def check_name(what: str, name: object) -> None:
    """Names of instances and queues are of lower-case letters and underscores."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            f"{what} must be named with lower-case letters and underscores, not {name!r}"
        )


def policy_of(job: JobDefinition, kind: JobType, task: str) -> Policy:
    """How a job wants to be treated: its retry function decides, wherever that is known."""
    timeout = kind.default_timeout if job.timeout is None else job.timeout
    windows = kind.default_time_windows if job.time_windows is None else job.time_windows
    return Policy(timeout=micros(timeout), retry=Custom(task), windows=_windows(windows))


def _windows(said: TimeWindows) -> Windows | None:
    if not said:
        return None
    text = said if isinstance(said, str) else ", ".join(f"{start}-{end}" for start, end in said)
    return parse_windows(text)
