"""CreateJob and CreateJobs: what is asked for, checked, and turned into jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from stoker.desk.orders import Order
from stoker.doors.bedrock import values, words
from stoker.doors.bedrock.refusals import (
    INVALID_JSON,
    MALFORMED_FIRST_RUN,
    MALFORMED_ON_TIMEOUT,
    MALFORMED_REPEAT,
    MALFORMED_RETRY_AFTER,
    MALFORMED_TIMEOUT,
    NO_GRANDCHILDREN,
    NO_SUCH_PARENTHOOD,
    OTHER_PARENT,
    RETRY_AFTER_WITH_REPEAT,
    RETRY_AFTER_WITH_TIMEOUT,
    RETRY_AFTER_WITH_UNIQUE,
    Refusal,
)
from stoker.doors.bedrock.words import Extras, Fields, Treatment
from stoker.errors import BadInput
from stoker.kernel.duration import LONGEST
from stoker.kernel.job import Job
from stoker.kernel.pattern import Pattern
from stoker.kernel.policy import Policy

PARENTS = ("RUNNING", "RUNQUEUED", "PAUSED")
_ARRAY = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_AGAIN = {"": True, "repeat": True, "drop": False}


class NewJob(NamedTuple):
    """One job that is asked for. None: nothing was said about it."""

    name: str
    priority: int | None
    data: values.Data | None
    written: bytes
    """The data as the client wrote them."""
    treatment: Treatment
    first_run: int | None
    parent_id: int | None
    unique: bool
    overwrite: bool
    mocked: bool

    @property
    def plain(self) -> bool:
        """Whether it concerns no other job."""
        return not self.unique and self.parent_id is None

    def draft(self, parent: Job | None) -> Job:
        """The job to be made; a child is mocked if its parent is."""
        if parent is not None and words.state_word(parent) not in PARENTS:
            raise Refusal(NO_SUCH_PARENTHOOD)
        if parent is not None and parent.parent_id is not None:
            raise Refusal(NO_GRANDCHILDREN)
        mocked = self.mocked if parent is None else words.is_mocked(parent)
        treatment = self.treatment
        if mocked or parent is not None:
            repeat = None if mocked else treatment.repeat
            treatment = msgspec.structs.replace(treatment, repeat=repeat, child=parent is not None)
        queue = words.queue_of(self.name, mocked=mocked)
        return Job(
            queue,
            self.name,
            self._payload(mocked),
            rank=words.rank_of(self.priority),
            due_at=self.first_run or 0,
            policy=words.policy_of(treatment),
            unique_key=queue if self.unique else None,
            meta=words.meta_of(Extras(retry_after=treatment.retry_after)),
        )

    def _payload(self, mocked: bool) -> bytes:
        data = self.data or {}
        if mocked or words.MARK in data:
            return msgspec.json.encode(words.marked(data, mocked=mocked))
        return self.written

    def order(self) -> Order:
        """The same as an order, which knows what to do where there is such a job already."""
        return Order(self.draft, self.parent_id, self.unique, self._news)

    def _news(self, there: Job) -> Fields:
        """What a job of the same name takes over: all that was said, and nothing else."""
        if there.parent_id not in (None, self.parent_id):
            raise Refusal(OTHER_PARENT)
        if not self.overwrite:
            return {}
        news: Fields = {}
        if self.data is not None:
            patch = words.marked(self.data, mocked=words.is_mocked(there))
            news["payload"] = words.merged(there.payload, patch)
        if self.treatment.repeat is not None and not words.is_mocked(there):
            news["policy"] = repeating(there, self.treatment.repeat)
        if self.priority is not None:
            news["rank"] = words.rank_of(self.priority)
        return {fact: value for fact, value in news.items() if value != getattr(there, fact)}


def new_job(given: Mapping[str, str], *, mocked: bool, tries: int | None) -> NewJob:
    """Read one job from its parameters, in the order in which clients know the checks."""
    name = values.name(given.get("name", ""))
    priority = _priority(given)
    data = values.data_object(given["data"]) if "data" in given else None
    treatment = _treatment(given, None if name.startswith(words.UNCOUNTED) else tries)
    first_run = given.get("firstrun", "")
    return NewJob(
        name=name,
        priority=priority,
        data=data,
        written=words.EMPTY if data is None else given["data"].encode(),
        treatment=treatment,
        # 1970 began at 0, which elsewhere stands for now.
        first_run=(values.moment(first_run, MALFORMED_FIRST_RUN) or 1) if first_run else None,
        parent_id=values.integer(given.get("parentjobid", "")) or None,
        unique=given.get("unique") == "true",
        overwrite=given.get("overwrite", "") in ("", "true"),
        mocked=mocked,
    )


def _priority(given: Mapping[str, str]) -> int | None:
    if "jobpriority" in given:
        return values.priority(given["jobpriority"])
    return values.priority(given["priority"]) if "priority" in given else None


def _treatment(given: Mapping[str, str], tries: int | None) -> Treatment:
    retry_after = given.get("retryafter", "")
    if retry_after and not words.retry_after_valid(retry_after):
        raise Refusal(MALFORMED_RETRY_AFTER)
    repeat = repeat_of(given.get("repeat", ""))
    timeout = _timeout(given.get("jobtimeout", ""))
    for other, refusal in (
        (repeat is not None, RETRY_AFTER_WITH_REPEAT),
        (given.get("unique") == "true", RETRY_AFTER_WITH_UNIQUE),
        (timeout is not None, RETRY_AFTER_WITH_TIMEOUT),
    ):
        if retry_after and other:
            raise Refusal(refusal)
    again = _AGAIN.get(given.get("ontimeout", "").lower())
    if again is None:
        raise Refusal(MALFORMED_ON_TIMEOUT)
    return Treatment(repeat, retry_after, timeout, again, tries=tries)


def repeat_of(text: str) -> str | None:
    """A repeat in its canonical form; None if it is empty."""
    if not text:
        return None
    try:
        return str(Pattern.parse(text))
    except BadInput as error:
        raise Refusal(MALFORMED_REPEAT, str(error)) from None


def repeating(job: Job, repeat: str) -> Policy:
    """The policy of a job that is to repeat from now on."""
    if words.extras(job).retry_after:
        raise Refusal(RETRY_AFTER_WITH_REPEAT)
    return msgspec.structs.replace(job.policy, repeat=repeat)


def _timeout(text: str) -> int | None:
    if not text:
        return None
    micros = values.integer(text) * values.MILLISECOND if text.isascii() and text.isdigit() else 0
    if not 0 < micros <= LONGEST:
        raise Refusal(MALFORMED_TIMEOUT)
    return micros


def listed_jobs(text: str) -> list[Mapping[str, str]]:
    """The parameters of each job in a JSON array, as they would stand in headers."""
    try:
        jobs = _ARRAY.decode(text.encode())
        if not all(jobs):
            raise Refusal(INVALID_JSON, "a job is an object with at least a name")
        return [_as_headers(job) for job in jobs]
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Refusal(INVALID_JSON, str(error)) from None


def _as_headers(job: Mapping[str, msgspec.Raw]) -> dict[str, str]:
    texts = {name.lower(): bytes(value).decode() for name, value in job.items()}
    return {
        name: msgspec.json.decode(text) if text.startswith('"') else text
        for name, text in texts.items()
        if text != "null"
    }
