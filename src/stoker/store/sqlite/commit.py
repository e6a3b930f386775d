"""Committing Changes, each whole or not at all, inside one transaction.

Two shapes are so common that runs of them have a short way: new jobs without names of their own,
and guarded writes or deletes of keyless jobs (what a worker reports). All else is guarded first
and then applied, job by job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import msgspec

from stoker.kernel.change import Change, Copies, NoteWrite, Tally, Touch, Write, applied, kinds
from stoker.kernel.job import LIVE, QUEUED, RUNNING, WAITING, Job, load
from stoker.store import OK, Receipt
from stoker.store.files import statements
from stoker.store.sqlite.many import for_all, in_steps
from stoker.store.sqlite.queue_book import QueueBook
from stoker.store.sqlite.rows import (
    COLUMNS,
    INLINE_BYTES,
    INSERT_WHOLE,
    PLAIN_LENGTH,
    Row,
    bare_row,
    copied_facts,
    insert_bare,
    insert_copies,
    is_plain,
    lane_of,
    order_columns,
    whole_row,
)
from stoker.store.sqlite.transaction import Transaction
from stoker.store.twins import Name, find_twins, names_held

_SQL = statements("stoker.store.sqlite.sql", "commit.sql")
_TALLY = f"{_SQL['tally']} {COLUMNS}"

# Facts that are one column each and that no count, lane or name depends on.
_SIMPLE = frozenset({"state", "token", "session", "until", "ended_at", "waits_for", "crashes"})
_SIMPLE |= {"result", "error", "progress", "reply", "cancel_requested", "undecided"}


def commit_all(tx: Transaction, changes: Sequence[Change]) -> list[Receipt]:
    """Commit in the order given; the receipts tell how each fared."""
    receipts: list[Receipt] = []
    for way, run in groupby(changes, key=_way_of):
        receipts.extend(way(tx, list(run)))
    return receipts


_Way = Callable[[Transaction, list[Change]], Iterable[Receipt]]


def _way_of(change: Change) -> _Way:
    if change.touches or change.tallies or change.queues or change.notes:
        return _one_by_one
    if bool(change.inserts) + bool(change.writes) + bool(change.deletes) != 1:
        return _one_by_one
    if change.inserts:
        return _one_by_one if any(map(names_held, kinds(change.inserts))) else _insert_run
    if change.writes:
        samples = (next(run) for _, run in groupby(change.writes, key=_sameness))
        return _write_run if all(map(_is_simple, samples)) else _one_by_one
    return _delete_run if all(map(_is_plain, change.deletes)) else _one_by_one


def _sameness(write: Write) -> tuple[Any, ...]:
    """Of writes the same in this, all are simple or none."""
    job = write.job
    is_plain = job.key is None and job.weight != 0
    return (write.set, job.state, is_plain, job.unique_key)


def _is_simple(write: Write) -> bool:
    job = write.job
    return (
        (job.state is not QUEUED or (job.key is None and job.weight != 0))
        and (job.unique_key is None or job.state in LIVE)
        and write.set.get("state") is not QUEUED
        and write.set.keys() <= _SIMPLE
    )


def _is_plain(job: Job) -> bool:
    return job.key is None and job.weight != 0 and len(job.payload) <= INLINE_BYTES


# -- short ways ----------------------------------------------------------------------------


def _insert_run(tx: Transaction, changes: list[Change]) -> Iterator[Receipt]:
    if len(changes) == 1:
        yield Receipt(ids=tuple(_insert(tx, changes[0].inserts)))
        return
    ids = _insert(tx, [job for change in changes for job in change.inserts])
    given = 0
    for change in changes:
        count = len(change.inserts)
        yield Receipt(ids=tuple(ids[given : given + count]))
        given += count


def _write_run(tx: Transaction, changes: list[Change]) -> list[Receipt]:
    writes = [write for change in changes for write in change.writes]
    alike = [list(run) for _, run in groupby(writes, key=_likeness)]
    if _all_pass(tx, len(writes), lambda: _update_together(tx, alike)):
        for run in alike:
            _enter_moves(tx, run)
        return [OK] * len(changes)
    return list(_one_by_one(tx, changes))


def _delete_run(tx: Transaction, changes: list[Change]) -> list[Receipt]:
    jobs = [job for change in changes for job in change.deletes]
    if _all_pass(tx, len(jobs), lambda: _delete_together(tx, jobs)):
        for job in jobs:
            tx.books.enter(job, -1)
        return [OK] * len(changes)
    return list(_one_by_one(tx, changes))


def _all_pass(tx: Transaction, count: int, run: Callable[[], None]) -> bool:
    """Did the whole run get past its guards? If not, nothing of it has happened.

    Nearly always it does; only when it does not is it worth asking which ones, one by one.
    """
    connection = tx.connection
    before = connection.total_changes()
    connection.execute("SAVEPOINT run")
    run()
    passed = connection.total_changes() - before == count
    if not passed:
        connection.execute("ROLLBACK TO run")
    connection.execute("RELEASE run")
    return passed


def _likeness(write: Write) -> tuple[Any, ...]:
    """Writes alike in this have one statement."""
    job, news = write.job, write.set
    was = (job.queue, job.state, job.weight, job.waits_for)
    return (tuple(news), news.get("state"), news.get("waits_for"), was)


def _update_together(tx: Transaction, alike: list[list[Write]]) -> None:
    for run in alike:
        first = _condition(run[0])
        fields = tuple(run[0].set)
        if all(_condition(write) == first for write in run):
            # They say the same, about jobs in the same condition.
            ids = msgspec.json.encode([write.job.id for write in run]).decode()
            news, revision, token = first
            row = (*news.values(), ids, revision, token)
            tx.connection.execute(_update_many(fields), row)
        else:
            tx.connection.executemany(_guarded_update(fields), map(_guarded_row, run))


def _condition(write: Write) -> tuple[Mapping[str, Any], int, int | None]:
    return (write.set, write.job.revision, write.job.token)


def _guarded_row(write: Write) -> Row:
    job = write.job
    return (*write.set.values(), job.id, job.revision, job.token)


def _enter_moves(tx: Transaction, alike: Sequence[Write]) -> None:
    first = alike[0]
    units = _load_after(first) - load(first.job)
    target = first.set.get("state", first.job.state)
    tx.books.move([write.job for write in alike], target, units)


def _delete_together(tx: Transaction, jobs: list[Job]) -> None:
    rows = [(job.id, job.revision, job.token) for job in jobs]
    tx.connection.executemany(_SQL["drop_job_guarded"], rows)


@cache
def _update_many(fields: tuple[str, ...]) -> str:
    some = "id IN (SELECT value FROM json_each(?))"
    return f"{_update(fields).replace('id = ?', some)} AND revision = ? AND token IS ?"


@cache
def _guarded_update(fields: tuple[str, ...]) -> str:
    return f"{_update(fields)} AND revision = ? AND token IS ?"


@cache
def _update(fields: tuple[str, ...]) -> str:
    columns = "".join(f"{field} = ?, " for field in fields)
    return f"UPDATE job SET {columns}revision = revision + 1, bare = 0 WHERE id = ?"  # noqa: S608


def _load_after(write: Write) -> int:
    state = write.set.get("state", write.job.state)
    if state is RUNNING:
        return write.job.weight
    return load(applied(write.job, write)) if state is WAITING else 0


# -- the long way --------------------------------------------------------------------------


def _one_by_one(tx: Transaction, changes: list[Change]) -> Iterator[Receipt]:
    for change in changes:
        yield _refusal(tx, change) or _apply(tx, change)


def _refusal(tx: Transaction, change: Change) -> Receipt | None:
    stale = [w.job.id for w in change.writes if not _unmoved(tx, w.job)]
    stale += [job.id for job in change.deletes if not _unmoved(tx, job)]
    stale += [touch.id for touch in change.touches if not _held(tx, touch)]
    notes = [n.key for n in change.notes if n.expect not in (None, _note_revision(tx, n.key))]
    if stale or notes:
        return Receipt(ok=False, stale=tuple(stale), stale_notes=tuple(notes))
    twins = find_twins(change, lambda name: holder_of(tx, name))
    return Receipt(ok=False, twins=twins) if twins else None


def _unmoved(tx: Transaction, copy: Job) -> bool:
    found = tx.connection.execute(_SQL["guard"], (copy.id,)).get
    return bool(found == (copy.revision, copy.token))


def _held(tx: Transaction, touch: Touch) -> bool:
    found = tx.connection.execute(_SQL["guard"], (touch.id,)).get
    return found is not None and found[1] == touch.token


def holder_of(tx: Transaction, name: Name) -> int | None:
    """The job that has a name, if any has."""
    kind, text = name
    found: int | None = tx.connection.execute(_SQL[f"holder_{kind}"], (text,)).get
    return found


def _apply(tx: Transaction, change: Change) -> Receipt:
    for name, settings in change.queues:
        tx.books.configure(name, settings)
    for job in change.deletes:
        delete(tx, job)
    for write in change.writes:
        _write(tx, write)
    for touch in change.touches:
        _touch(tx, touch)
    ids = tuple(_insert(tx, change.inserts))
    parents = _tell(tx, change.tallies)
    for note in change.notes:
        _put_note(tx, note)
    return Receipt(ids=ids, parents=parents) if ids or parents else OK


def _insert(tx: Transaction, jobs: Sequence[Job]) -> range:
    if not jobs:
        return range(0)
    last = tx.connection.execute(_SQL["take_ids"], (len(jobs),)).get
    ids = range(last - len(jobs) + 1, last + 1)
    if isinstance(jobs, Copies) and _are_plain(tx, jobs):
        _insert_copies(tx, jobs, ids)
        return ids
    next_id = iter(ids)
    for (name, policy), run in groupby(jobs, key=attrgetter("queue", "policy")):
        book = tx.books.queue(name)
        stored = tx.policies.stored(tx.connection, policy)
        bare: list[Row] = []
        whole: list[tuple[int, Job]] = []
        for job, job_id in zip(run, next_id, strict=False):
            row = bare_row(job, job_id, book.id, stored, book.settings)
            if row is None:
                whole.append((job_id, job))
            else:
                bare.append(row)
        insert_whole(tx, whole, book, stored)
        _insert_bare(tx, book, bare)
    return ids


def _are_plain(tx: Transaction, copies: Copies) -> bool:
    job = copies.template
    limited = tx.books.queue(job.queue).settings.limits_task(job.name)
    return not limited and is_plain(job, max(map(len, copies.payloads)))


def _insert_copies(tx: Transaction, copies: Copies, ids: range) -> None:
    job = copies.template
    book = tx.books.queue(job.queue)
    tx.books.add_queued(book, len(ids))
    common = copied_facts(job, book.id, tx.policies.stored(tx.connection, job.policy))
    for some in in_steps([*zip(ids, copies.payloads, strict=True)]):
        sql = insert_copies(book.settings.order, len(some))
        tx.connection.execute(sql, (*common, *chain.from_iterable(some)))


def _insert_bare(tx: Transaction, book: QueueBook, rows: list[Row]) -> None:
    tx.books.add_queued(book, len(rows))
    for length, alike in groupby(sorted(rows, key=len), key=len):
        waiting = list(alike)
        if length > PLAIN_LENGTH:
            _join_lanes(tx, book, waiting)
        for some in in_steps(waiting):
            sql = insert_bare(book.settings.order, length, len(some))
            tx.connection.execute(sql, [*chain.from_iterable(some)])


def _join_lanes(tx: Transaction, book: QueueBook, rows: list[Row]) -> None:
    for job_id, _, _, _, _, due_at, _, _, _, rank, _, _, lane in rows:
        if lane is not None:
            bucket, second = order_columns(rank, book.settings)
            tx.books.lanes.arrived(book, lane, bucket, (due_at, second, job_id))


def insert_whole(
    tx: Transaction, jobs: Sequence[tuple[int, Job]], book: QueueBook, policy: int | str | None
) -> None:
    """Take in jobs of one queue, of any kind and in any state, under these ids."""
    rows = [whole_row(job, job_id, book.id, policy, book.settings) for job_id, job in jobs]
    for_all(tx.connection, INSERT_WHOLE, rows)
    for job_id, job in jobs:
        tx.books.enter(job)
        if len(job.payload) > INLINE_BYTES:
            tx.connection.execute(_SQL["put_body"], (job_id, job.payload))


def _write(tx: Transaction, write: Write) -> None:
    before, after = write.job, applied(write.job, write)
    tx.books.enter(before, -1)
    tx.books.enter(after)
    columns = _columns(tx, after, write.set)
    if "payload" in columns:
        columns["payload"] = _put_payload(tx, before, after)
    sql = _update(tuple(columns))
    tx.connection.execute(sql, (*columns.values(), before.id))


def _columns(tx: Transaction, after: Job, fields: Mapping[str, Any]) -> dict[str, Any]:
    columns = dict(fields)
    book = tx.books.queue(after.queue)
    if "queue" in columns:
        columns["queue"] = book.id
    if "policy" in columns:
        columns["policy"] = tx.policies.stored(tx.connection, after.policy)
    if after.state is QUEUED or "rank" in columns:
        columns.pop("rank", None)
        columns["lane"] = lane_of(after.name, after.key, after.weight, book.settings)
        columns["bucket"], columns["second"] = order_columns(after.rank, book.settings)
    return columns


def _put_payload(tx: Transaction, before: Job, after: Job) -> bytes | None:
    if len(after.payload) > INLINE_BYTES:
        tx.connection.execute(_SQL["put_body"], (after.id, after.payload))
        return None
    if len(before.payload) > INLINE_BYTES:
        tx.connection.execute(_SQL["drop_body"], (before.id,))
    return after.payload


def _touch(tx: Transaction, touch: Touch) -> None:
    if touch.set:
        columns = ", ".join(f"{field} = ?" for field in touch.set)
        sql = f"UPDATE job SET {columns} WHERE id = ?"  # noqa: S608
        tx.connection.execute(sql, (*touch.set.values(), touch.id))


def delete(tx: Transaction, job: Job) -> None:
    """Remove a job that is there just so."""
    tx.books.enter(job, -1)
    tx.connection.execute(_SQL["drop_job"], (job.id,))
    if len(job.payload) > INLINE_BYTES:
        tx.connection.execute(_SQL["drop_body"], (job.id,))


def _tell(tx: Transaction, tallies: tuple[Tally, ...]) -> tuple[Job, ...]:
    parents: dict[int, Job] = {}
    for tally in tallies:
        row = tx.connection.execute(_TALLY, (tally.parent_id, tally.ended)).get
        if row is not None:
            parents[tally.parent_id] = tx.read_job(row)
    return tuple(parents.values())


def _note_revision(tx: Transaction, key: str) -> int:
    return tx.connection.execute(_SQL["note_revision"], (key, tx.now)).get or 0


def _put_note(tx: Transaction, note: NoteWrite) -> None:
    if note.value is None:
        tx.connection.execute(_SQL["drop_note"], (note.key,))
    else:
        row = (note.key, note.value, note.until, _note_revision(tx, note.key) + 1)
        tx.connection.execute(_SQL["put_note"], row)
