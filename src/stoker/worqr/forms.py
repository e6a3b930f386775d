"""Tasks as jobs, queues and processes by their names.

A task is a text or bytes, and comes out as it went in. It has no identity: equal tasks are equal.
A process is a task that is being worked on; its id tells which lease it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import quote

from stoker.errors import BadInput, NotFound
from stoker.kernel.job import Format, Job
from stoker.kernel.policy import Policy
from stoker.kernel.retention import Retention

Task = str | bytes

_POLICY = Policy(
    timeout=None, crash_limit=None, retention=Retention(finished=0, failed=0, cancelled=0)
)
_PROCESS = re.compile(r"(.*)_([0-9]{1,18})-([0-9a-f]{1,16})", re.DOTALL)


class Process(NamedTuple):
    """A task that is being worked on."""

    id: str
    task: Task


class Names:
    """The queues of one name space, among all those of the store.

    >>> names = Names("a:b")
    >>> names.full("mail"), names.short("a%3Ab:mail"), names.short("b:mail")
    ('a%3Ab:mail', 'mail', None)
    """

    def __init__(self, prefix: str) -> None:
        self._head = f"{quote(prefix, safe='')}:"

    @property
    def pattern(self) -> str:
        """What all our queues match, as a GLOB."""
        return f"{self._head}*"

    def full(self, queue: str) -> str:
        """A queue's name in the store."""
        if not (queue and isinstance(queue, str)):
            raise BadInput(f"a queue's name is a text that is not empty, not {queue!r}")
        return self._head + queue

    def short(self, full: str) -> str | None:
        """A queue's name among ours; None: it is none of ours."""
        return full.removeprefix(self._head) if full.startswith(self._head) else None

    def job(self, queue: str, task: Task, *, unique: bool = False) -> Job:
        """The job that a task is."""
        payload, form = content(task)
        full, name = self.full(queue), fingerprint(task)
        key = f"{full}:{name}" if unique else None
        return Job(full, name=name, payload=payload, format=form, policy=_POLICY, unique_key=key)

    def process_id(self, job: Job) -> str:
        """By what a process is known: its queue, its task's job, and its lease."""
        return f"{self.short(job.queue)}_{job.id}-{job.token or 0:x}"


def lease_of(process_id: str) -> tuple[int, int]:
    """The job and the lease that a process is about."""
    match = _PROCESS.fullmatch(process_id)
    if match is None:
        raise NotFound(f"there is no process {process_id!r}")
    return int(match[2]), int(match[3], 16)


def several(tasks: Task | Iterable[Task]) -> Iterable[Task]:
    """The tasks that were given, one or more."""
    if isinstance(tasks, str | bytes):
        return [tasks]
    if not isinstance(tasks, Iterable):
        raise BadInput(f"a task is a text or bytes, not {type(tasks).__name__}")
    return tasks


def content(task: Task) -> tuple[bytes, Format]:
    """A task as it is stored."""
    if isinstance(task, bytes):
        return task, Format.BYTES
    if not isinstance(task, str):
        raise BadInput(f"a task is a text or bytes, not {type(task).__name__}")
    try:
        return task.encode(), Format.TEXT
    except UnicodeEncodeError:
        raise BadInput("the task holds half a character (a lone surrogate); use bytes") from None


def task_of(job: Job) -> Task:
    """The task that a job is."""
    if job.format is Format.BYTES:
        return job.payload
    return job.payload.decode("utf-8", "replace")


def fingerprint(task: Task) -> str:
    """The same for equal tasks, so that they are found among many."""
    payload, form = content(task)
    return blake2b(payload, digest_size=16, person=form.name.encode()).hexdigest()


def is_same(job: Job, task: Task) -> bool:
    """Whether the job is this very task."""
    return (job.payload, job.format) == content(task)
