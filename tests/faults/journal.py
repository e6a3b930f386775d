"""What actors write down: each intent before the call, each outcome after it.

A line is one write to a file of the actor's own, so a kill tears at most the last line: an intent
that was never acted upon, or an answer that nobody saw. An intent without an outcome is not a
failure but a question, and the store has the answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from stoker.kernel.job import Job, State


class Entry(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """One line. `at` is the store's clock when the line was written."""

    at: int


class Offer(Entry, frozen=True):
    """Intent: these jobs, all or none. `refs`: they have names, so offering again is harmless."""

    batch: str
    tags: list[str]
    dues: list[int]
    refs: bool = False


class Placed(Entry, frozen=True):
    """Outcome of an offer: the ids of its jobs."""

    batch: str
    ids: list[int]


class Declined(Entry, frozen=True):
    """Outcome of an offer: refused, so nothing of it may ever be seen."""

    batch: str


class Ask(Entry, frozen=True):
    """Intent: a claim under this token."""

    token: int


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """One job of a grant, as it was handed out."""

    job: int
    revision: int
    due_at: int
    started_at: int
    queue: str
    key: str | None
    weight: int
    task: str = ""


def lease_of(job: Job) -> Lease:
    """What is noted of a job that was handed out."""
    assert job.started_at is not None
    where = (job.queue, job.key, job.weight, job.name)
    return Lease(job.id, job.revision, job.due_at, job.started_at, *where)


class Granted(Entry, frozen=True):
    """Outcome of a claim."""

    token: int
    session: int
    leases: list[Lease]


class Try(Entry, frozen=True):
    """Intent: report about a job held under this token."""

    job: int
    token: int
    what: str


class Ruled(Entry, frozen=True):
    """Outcome of a report: where the job went, or the code of the error that refused it."""

    job: int
    token: int
    state: State | None = None
    due_at: int = 0
    refused: str | None = None


class Pulse(Entry, frozen=True):
    """Outcome of a session's beginning or beat; `at` is the moment before the call."""

    session: int
    ttl: int
    alive: bool = True


class Farewell(Entry, frozen=True):
    """Intent: give a session up, with all it holds."""

    session: int


class Mishap(Entry, frozen=True):
    """A call failed because the store could not do its work; what became of it is unknown."""

    error: str


class Deed(Entry, frozen=True):
    """What the nemesis did to an actor: kill, stop or resume."""

    what: str
    actor: str


class Sample(Entry, frozen=True):
    """What a look from outside saw running in a limited queue, in thousandths."""

    queue: str
    used: int
    keys: dict[str, int]


Logs = Mapping[str, Sequence[Entry]]
"""Everything that was written down, by actor."""

_Intent = Offer | Ask | Try | Farewell
_Outcome = Placed | Declined | Granted | Ruled | Pulse | Mishap
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Intent | _Outcome | Deed | Sample)
_SUFFIX = ".log"


class Journal:
    """One actor's file."""

    def __init__(self, folder: Path, actor: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(folder / f"{actor}{_SUFFIX}", flags, 0o600)

    def write(self, entry: Entry) -> None:
        os.write(self._file, _ENCODER.encode(entry) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read_journal(folder: Path, actor: str) -> list[Entry]:
    """An actor's whole lines; it may never have come to write one."""
    path = folder / f"{actor}{_SUFFIX}"
    if not path.exists():
        return []
    *lines, _torn = path.read_bytes().split(b"\n")
    return [_DECODER.decode(line) for line in lines]


def read_journals(folder: Path) -> Logs:
    """All that was written down in a folder."""
    actors = sorted(path.stem for path in folder.glob(f"*{_SUFFIX}"))
    return {actor: read_journal(folder, actor) for actor in actors}
