"""What may be said in a request: types that refuse what cannot be meant.

Durations are numbers of seconds or texts such as `30s`, `5m` or `PT1H`; moments are ISO 8601 with a
zone. What is left out is as it is usual.
"""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from stoker.desk import Twin
from stoker.doors.cli.words import read_moment
from stoker.doors.forms import FormatName
from stoker.errors import BadInput
from stoker.kernel.amount import MOST, units
from stoker.kernel.duration import micros
from stoker.kernel.job import LARGEST_ID, Format, Job
from stoker.kernel.pacing import Pace, pace_of
from stoker.kernel.policy import MOST_CRASHES, PLAIN, OnLost, Policy
from stoker.kernel.queue import Retention
from stoker.kernel.retry import RetryPolicy
from stoker.kernel.retry_forms import parse_retry
from stoker.kernel.window import parse_windows

Duration = Annotated[float, Meta(ge=0)] | str
Lease = Annotated[str, Meta(pattern="^[0-9]{1,19}$", examples=["3172450012870011123"])]
"""What a claim gave; every word about a job in hand must show it."""
Session = Annotated[str, Meta(pattern="^[0-9]{1,19}$", examples=["2711620044918273645"])]
Word = Annotated[str, Meta(min_length=1)]
JobId = Annotated[int, Meta(ge=1, le=LARGEST_ID)]
Count = Annotated[int, Meta(ge=1, le=1000)]
Places = Annotated[float, Meta(ge=0, le=MOST)]


class Wish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all requests have in common: a misspelt word is an error, not ignored."""


class NewRetention(Wish, frozen=True, kw_only=True):
    """How long ended jobs are kept; null: for ever."""

    finished: Duration | UnsetType | None = UNSET
    failed: Duration | UnsetType | None = UNSET
    cancelled: Duration | UnsetType | None = UNSET

    def read(self, usual: Retention) -> Retention:
        """The retention; what is left out is as usual."""
        return msgspec.structs.replace(
            usual,
            **{
                name: None if said is None else micros(said)
                for name in self.__struct_fields__
                if (said := getattr(self, name)) is not UNSET
            },
        )


class NewPolicy(Wish, frozen=True, kw_only=True):
    """How a job wants to be treated. `retry`, `repeat` and `windows` are texts as in the guides."""

    timeout: Duration | UnsetType | None = UNSET
    on_lost: Literal["requeue", "retry", "fail", "stay"] | UnsetType = UNSET
    crash_limit: Annotated[int, Meta(ge=1, le=MOST_CRASHES)] | UnsetType | None = UNSET
    retry: str | dict[str, Any] | UnsetType = UNSET
    repeat: str | None = None
    windows: str | None = None
    retention: NewRetention | None = None

    def read(self) -> Policy:
        """The policy."""
        said: dict[str, Any] = {"repeat": self.repeat}
        if self.timeout is not UNSET:
            said["timeout"] = None if self.timeout is None else micros(self.timeout)
        if self.on_lost is not UNSET:
            said["on_lost"] = OnLost(self.on_lost)
        if self.crash_limit is not UNSET:
            said["crash_limit"] = self.crash_limit
        if self.retry is not UNSET:
            said["retry"] = _retry(self.retry)
        if self.windows is not None:
            said["windows"] = parse_windows(self.windows)
        if self.retention is not None:
            said["retention"] = self.retention.read(Retention())
        return Policy(**said)


def _retry(said: str | dict[str, Any]) -> RetryPolicy:
    if isinstance(said, str):
        return parse_retry(said)
    try:
        policy: RetryPolicy = msgspec.convert(said, RetryPolicy)
    except msgspec.ValidationError as error:
        raise BadInput(f"cannot read the retry policy: {error}") from error
    return policy


class Draft(Wish, frozen=True, kw_only=True):
    """What a job is about."""

    queue: str
    name: Word = ""
    payload: Raw | UnsetType = UNSET
    format: FormatName = "json"
    rank: int = 0
    at: str | None = None
    delay: Duration | None = None
    weight: Places = 1.0
    key: str | None = None
    unique_key: str | None = None
    ref: str | None = None
    meta: str | None = None
    policy: NewPolicy | None = None

    def read(self, now: int) -> Job:
        """The job."""
        return Job(
            self.queue,
            self.name,
            b"null" if self.payload is UNSET else payload_of(self.payload, self.format),
            _FORMATS[self.format],
            rank=self.rank,
            due_at=due_at(now, self.at, self.delay) or 0,
            weight=1000 if self.weight == 1.0 else units(self.weight),
            key=self.key,
            unique_key=self.unique_key,
            ref=self.ref,
            meta=self.meta,
            policy=PLAIN if self.policy is None else self.policy.read(),
        )


_FORMATS: dict[FormatName, Format] = {
    "json": Format.JSON,
    "text": Format.TEXT,
    "bytes": Format.BYTES,
}


def payload_of(said: Raw, kind: FormatName) -> bytes:
    """The bytes that are meant: JSON as it was written, a text, or what base64 stands for."""
    if kind == "json":
        return bytes(said)
    try:
        text = msgspec.json.decode(said, type=str)
        return text.encode() if kind == "text" else base64.b64decode(text, validate=True)
    except ValueError as error:
        wanted = "a JSON string" if kind == "text" else "a JSON string of base64"
        raise BadInput(f"a payload of the format {kind!r} is given as {wanted}: {error}") from error


def due_at(now: int, at: str | None, delay: Duration | None) -> int | None:
    """When a job may run, if that was said."""
    if at is not None and delay is not None:
        raise BadInput("say `at` or `delay`, not both")
    if delay is not None:
        return now + micros(delay)
    return None if at is None else read_moment(at)


def visibility_of(said: Duration | timedelta) -> int:
    """For how long a lease holds without a sign of life."""
    visibility = micros(said)
    if visibility == 0:
        raise BadInput("a visibility of 0 is over before the work begins; give more, such as 30s")
    return visibility


IfExists = Literal["reject", "return", "update"]


class NewJob(Draft, frozen=True, kw_only=True):
    """A job to be enqueued. `once_per` keeps the first one of its unique key in a period,
    `debounce` the last before it was quiet for so long, but `at_most` after the first."""

    if_exists: IfExists | UnsetType = UNSET
    once_per: Duration | None = None
    debounce: Duration | None = None
    at_most: Duration | None = None
    callback: str | None = None
    """A URL to which is posted what became of the job."""

    @property
    def is_plain(self) -> bool:
        """Is nothing asked for but a job that is new?"""
        return (
            self.if_exists in (UNSET, "reject")
            and self.once_per is None
            and self.debounce is None
            and self.at_most is None
            and self.callback is None
        )

    @property
    def twin(self) -> Twin:
        """What to do if there is such a job already."""
        if self.if_exists is UNSET:
            return Twin.REJECT if self.debounce is None else Twin.UPDATE
        return Twin(self.if_exists)

    @property
    def pace(self) -> Pace | None:
        """How often such a job may be, if that was said."""
        said = (self.once_per, self.debounce, self.at_most)
        return pace_of(*(None if time is None else micros(time) for time in said))


class NewJobs(Wish, frozen=True, kw_only=True):
    """Jobs to be enqueued all or none."""

    jobs: Annotated[list[Draft], Meta(max_length=10_000)]
    if_exists: IfExists = "reject"


class Edit(Wish, frozen=True, kw_only=True):
    """What is to be changed of a job; what is left out stays."""

    queue: str | UnsetType = UNSET
    name: Word | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET
    format: FormatName | UnsetType = UNSET
    rank: int | UnsetType = UNSET
    at: str | UnsetType = UNSET
    delay: Duration | UnsetType = UNSET
    weight: Places | UnsetType = UNSET
    key: str | UnsetType | None = UNSET
    unique_key: str | UnsetType | None = UNSET
    meta: str | UnsetType | None = UNSET
    policy: NewPolicy | UnsetType = UNSET

    def read(self, now: int) -> dict[str, Any]:
        """The facts and their new values."""
        plain = ("queue", "name", "rank", "key", "unique_key", "meta")
        facts: dict[str, Any] = {
            name: getattr(self, name) for name in plain if getattr(self, name) is not UNSET
        }
        if self.payload is not UNSET:
            kind: FormatName = "json" if self.format is UNSET else self.format
            facts |= {"payload": payload_of(self.payload, kind), "format": _FORMATS[kind]}
        elif self.format is not UNSET:
            raise BadInput("a format says how the payload is meant; give both")
        if self.weight is not UNSET:
            facts["weight"] = units(self.weight)
        if self.policy is not UNSET:
            facts["policy"] = self.policy.read()
        due = due_at(
            now,
            None if self.at is UNSET else self.at,
            None if self.delay is UNSET else self.delay,
        )
        return facts if due is None else {**facts, "due_at": due}


class Ids(Wish, frozen=True, kw_only=True):
    """Jobs by id."""

    ids: Annotated[list[JobId], Meta(max_length=1000)]


# -- working -------------------------------------------------------------------------------


class Claim(Wish, frozen=True, kw_only=True):
    """Due jobs of these queues (GLOB patterns allowed), best first.

    The lease ends `visibility` after the claim or the last renewal; under a session it ends with
    the session, unless a visibility is given as well. `wait` is how long to wait for a job.
    """

    queues: Annotated[list[str], Meta(min_length=1, max_length=100)]
    limit: Count = 1
    wait: Duration = 0.0
    session: Session | None = None
    visibility: Duration | None = None


class Finish(Wish, frozen=True, kw_only=True):
    """The work is done. `payload` seeds the next run of a job that repeats."""

    lease: Lease
    result: Raw | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET
    repeat: bool = True


class Fail(Wish, frozen=True, kw_only=True):
    """The try was spoilt. The job's retry policy decides, unless `retry` does.

    `kinds` are names of the error and its kin, by which a policy may choose. `retry` is false for
    "never again", or how long to wait before the next try.
    """

    lease: Lease
    error: str
    kinds: list[str] = []
    retry: Literal[False] | Duration | None = None
    payload: Raw | UnsetType = UNSET
    repeat: bool = True


class Release(Wish, frozen=True, kw_only=True):
    """Give the job back, to its old place or put off; no try is counted."""

    lease: Lease
    at: str | None = None
    delay: Duration | None = None
    payload: Raw | UnsetType = UNSET
    reason: str | None = None


class Snooze(Wish, frozen=True, kw_only=True):
    """Come back to the job later; no try is counted."""

    lease: Lease
    delay: Duration
    payload: Raw | UnsetType = UNSET


class Await(Wish, frozen=True, kw_only=True):
    """Let the job wait, in nobody's hands, for the reply with this key."""

    lease: Lease
    key: Annotated[str, Meta(min_length=1)]
    timeout: Duration | None = None


class Renew(Wish, frozen=True, kw_only=True):
    """A later end of the lease, counted from now."""

    lease: Lease
    visibility: Duration


class Progress(Wish, frozen=True, kw_only=True):
    """How far the work has come; and, if wanted, a later end of the lease."""

    lease: Lease
    progress: Annotated[float, Meta(ge=0, le=1)]
    visibility: Duration | None = None


class Rewrite(Wish, frozen=True, kw_only=True):
    """Another payload, with which the next try begins."""

    lease: Lease
    payload: Raw


class Spawn(Wish, frozen=True, kw_only=True):
    """Children: they run when the parent has finished its own part; then it runs again."""

    lease: Lease
    jobs: Annotated[list[Draft], Meta(min_length=1, max_length=1000)]


class FinishOne(Finish, frozen=True, kw_only=True, tag_field="do", tag="finish"):
    """As `Finish`, among others."""

    id: JobId


class FailOne(Fail, frozen=True, kw_only=True, tag_field="do", tag="fail"):
    """As `Fail`, among others."""

    id: JobId


class ReleaseOne(Release, frozen=True, kw_only=True, tag_field="do", tag="release"):
    """As `Release`, among others."""

    id: JobId


class SnoozeOne(Snooze, frozen=True, kw_only=True, tag_field="do", tag="snooze"):
    """As `Snooze`, among others."""

    id: JobId


class AwaitOne(Await, frozen=True, kw_only=True, tag_field="do", tag="wait"):
    """As `Await`, among others."""

    id: JobId


One = FinishOne | FailOne | ReleaseOne | SnoozeOne | AwaitOne


class Reports(Wish, frozen=True, kw_only=True):
    """What came of many jobs, each on its own, and perhaps a claim, in one durable step."""

    reports: Annotated[list[One], Meta(max_length=1000)]
    claim: Claim | None = None


class NewSession(Wish, frozen=True, kw_only=True):
    """A worker's session: without a beat within `ttl` it is dead, and its leases are over."""

    name: str = ""
    ttl: Duration = 15.0
    host: str = ""
    pid: int | None = None
    queues: list[str] | None = None
    concurrency: int | None = None


class Beat(Wish, frozen=True, kw_only=True):
    """A sign of life, good for `ttl`."""

    ttl: Duration = 15.0


# -- operating -----------------------------------------------------------------------------


class ScheduleChange(Wish, frozen=True, kw_only=True):
    """Stop a schedule, or let it go on."""

    paused: bool


class Run(Wish, frozen=True, kw_only=True):
    """One run of a schedule, now."""

    schedule: str


class NewToken(Wish, frozen=True, kw_only=True):
    """A token for somebody: what it may do, and how often a second."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scopes: Annotated[list[Literal["enqueue", "work", "operate", "admin"]], Meta(min_length=1)]
    rate: Annotated[float, Meta(gt=0)] | None = None
