"""Looking at one partition: jobs by what is known of them, queues, notes, sessions.

Where an index leads to the jobs in question it is asked for their numbers; else the jobs are looked
at in order of their numbers, a few hundred in a call. Either way a job counts only if the copy that
was read matches: the index may be a moment older.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from stoker.kernel.change import Note
from stoker.kernel.job import FAILED, LIVE, RUNNING, STATES, Job, partition_of
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.store import Adrift, Filter, Forgettable, InLine, Lost, Query, QueueView, Session
from stoker.store.filtering import matches
from stoker.store.redis import layout
from stoker.store.redis.connection import Argument
from stoker.store.redis.layout import JobReader, number_of, numbers_in, queue_in_head
from stoker.store.redis.names import name_in_store
from stoker.store.redis.stand import hexadecimal, waiting_for
from stoker.store.twins import Name

PAGE = 1000
"""How many things a function looks at in one call."""

_WATCHED: dict[type[Query], str] = {Lost: "lost", Adrift: "adrift", Forgettable: "forgettable"}
_SETTINGS = msgspec.json.Decoder(QueueSettings)
_NUMBERS = msgspec.msgpack.Decoder(list[int])
_SAID = msgspec.msgpack.Decoder(tuple[str, str])


class Looker(ABC):
    """What can be asked of a partition without changing it."""

    number: int

    @abstractmethod
    def call(self, name: str, *args: Argument) -> list[Any]:
        """Call a function; returns its answer."""

    def reader(self) -> JobReader:
        """For the jobs of one answer."""
        return JobReader(self.number)

    # -- jobs ------------------------------------------------------------------------------

    def get(self, ids: Iterable[int]) -> dict[int, Job]:
        """Jobs by id."""
        return {job.id: job for job in self._read(sorted(map(number_of, set(ids))))}

    def find(self, query: Query) -> list[Job]:
        """Jobs by what is known of them."""
        if isinstance(query, Filter):
            matching = (job for job in self._candidates(query) if matches(job, query))
            return list(islice(matching, query.limit))
        if isinstance(query, InLine):
            told = self.call("in_line", query.queue, self._spot(query.after), query.limit)
            return list(self.reader().jobs(told))
        return list(self.reader().jobs(self.call(_WATCHED[type(query)], query.limit)))

    def _spot(self, after: tuple[int, int, int] | None) -> bytes:
        """A place as it is here. Of jobs with the same rank and due time those of the partitions
        before this one come first."""
        if after is None:
            return b""
        rank, due_at, job_id = after
        home = partition_of(job_id)
        if home != self.number:
            job_id = 0 if home < self.number else -1
        return layout.place(rank, due_at, job_id)

    def holders(self, names: Sequence[Name]) -> list[int]:
        """The ids of those who have these names, as far as anybody has."""
        reader, ids = self.reader(), list[int]()
        for at in range(0, len(names), PAGE):
            asked = [part for name in names[at : at + PAGE] for part in name_in_store(name)]
            ids += [reader.id_of(number) for number in self.call("named", *asked) if number]
        return ids

    def _read(self, numbers: Sequence[bytes]) -> Iterator[Job]:
        reader = self.reader()
        for at in range(0, len(numbers), PAGE):
            yield from reader.jobs(self.call("get", b"".join(numbers[at : at + PAGE])))

    def _candidates(self, query: Filter) -> Iterator[Job]:
        live = bool(query.states) and set(query.states) <= LIVE
        if query.ref is not None:
            return self._named(("ref", query.ref))
        if query.unique_key is not None and live:
            return self._named(("unique", query.unique_key))
        if query.session is not None:
            return self._held(query, hexadecimal(query.session))
        index = _index_for(query, live=live)
        if index is not None:
            return self._listed(query, *index)
        if query.states == (RUNNING,):
            return self._held(query, "*")
        return self._scanned(query)

    def _named(self, name: Name) -> Iterator[Job]:
        return iter(self.get(self.holders([name])).values())

    def _held(self, query: Filter, session: str) -> Iterator[Job]:
        (numbers,) = self.call("held", session)
        return self._read(sorted(numbers_in(numbers), reverse=query.newest_first))

    def _listed(self, query: Filter, index: str, before: bytes) -> Iterator[Job]:
        after = _after(query)
        while True:
            told = self.call("list", index, before, after, int(query.newest_first), PAGE)
            numbers = numbers_in(told[0])
            yield from self._read(numbers)
            if len(numbers) < PAGE:
                return
            after = numbers[-1]

    def _scanned(self, query: Filter) -> Iterator[Job]:
        after, states = _after(query), bytes(query.states)
        queue = b"" if query.queue is None else queue_in_head(query.queue)
        wanted = (int(query.newest_first), min(query.limit, PAGE), states, queue)
        reader = self.reader()
        while True:
            after, *told = self.call("scan", after, *wanted)
            yield from reader.jobs(told)
            if not after:
                return

    # -- queues, notes, sessions -----------------------------------------------------------

    def survey(self, names: Sequence[str] | None = None) -> list[QueueView]:
        """The queues, in no particular order."""
        wanted = self.listed("queues", "") if names is None else list(dict.fromkeys(names))
        views = []
        for at in range(0, len(wanted), PAGE):
            told = self.call("survey", *wanted[at : at + PAGE])
            views += [_view(told[i : i + 9]) for i in range(0, len(told), 9)]
        return views

    def listed(self, index: str, prefix: str) -> list[str]:
        """The names in an index that begin so, sorted."""
        found: list[str] = []
        bound = b"[" + prefix.encode()
        while True:
            (page,) = self.call("names", index, bound, PAGE)
            names = [name.decode() for name in page]
            found += [name for name in names if name.startswith(prefix)]
            if len(page) < PAGE or not names[-1].startswith(prefix):
                return found
            bound = b"(" + page[-1]

    def next_due(self, queues: Sequence[str], after: int | None) -> int | None:
        """When the next job falls due."""
        bound = b"" if after is None else layout.sortable(after)
        (due,) = self.call("next_due", bound, *queues)
        return layout.unsorted(due) if due else None

    def flows(self, queue: str, meters: Sequence[str]) -> dict[str, str]:
        """What is remembered for rates."""
        if not meters:
            return {}
        found = zip(meters, self.call("flows", queue, *meters), strict=True)
        return {meter: _flow(state) for meter, state in found if state}

    def notes(self, keys: Sequence[str] | None) -> dict[str, Note]:
        """Notes by key, or all of them."""
        told: list[Any] = []
        if keys is None:
            told = self.call("notes")
        else:
            for at in range(0, len(keys), PAGE):
                told += self.call("notes", *keys[at : at + PAGE])
        notes = [_note(key, written) for key, written in zip(told[::2], told[1::2], strict=True)]
        return {note.key: note for note in notes}

    def sessions(self) -> list[Session]:
        """All sessions, in no particular order."""
        (told,) = self.call("sessions")
        return [_session(*told[at : at + 2]) for at in range(0, len(told), 2)]

    def troubled(self) -> bool:
        """Is there anything for the night watch?"""
        return bool(self.call("troubled")[0])


def _index_for(query: Filter, *, live: bool) -> tuple[str, bytes] | None:
    """An index with the jobs in question, and what stands before their numbers there."""
    if query.parent_id is not None:
        return "kids", number_of(query.parent_id)
    if query.waits_for is not None:
        return "w", waiting_for(query.waits_for)
    if query.repeating and live:
        return "repeating", b""
    return ("failed", b"") if query.states == (FAILED,) else None


def _after(query: Filter) -> bytes:
    return b"" if query.after is None else number_of(query.after)


def _view(told: Sequence[bytes]) -> QueueView:
    name, settings, used, *counts = told
    read = DEFAULTS if settings == b"{}" else _SETTINGS.decode(settings)
    by_state = dict(zip(STATES, map(int, counts), strict=True))
    return QueueView(name.decode(), read, by_state, int(used))


def _flow(state: bytes) -> str:
    return " ".join(map(str, _NUMBERS.decode(state)))


def _note(key: bytes, written: bytes) -> Note:
    revision, until = int.from_bytes(written[:4], "big"), layout.moment_in(written[4:12])
    return Note(key.decode(), written[12:], until, revision)


def _session(name: bytes, kept: bytes) -> Session:
    who, info = _SAID.decode(kept[16:])
    expires_at, started_at = layout.moment_in(kept[:8]), layout.moment_in(kept[8:16])
    assert expires_at is not None and started_at is not None
    return Session(int(name, 16), who, info, started_at, expires_at)
