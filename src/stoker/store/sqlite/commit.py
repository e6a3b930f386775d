"""Committing Changes, each whole or not at all, inside one transaction.

Two shapes are so common that runs of them have a short way: new jobs without names of their own,
and single guarded writes of keyless jobs (what a worker reports). All else is guarded first and
then applied, job by job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from stoker.kernel.change import Change, NoteWrite, Tally, Touch, Write, applied
from stoker.kernel.job import LIVE, Job, State, load
from stoker.store import OK, Receipt
from stoker.store.files import statements
from stoker.store.sqlite.rows import (
    COLUMNS,
    INLINE_BYTES,
    INSERT_LEAN,
    INSERT_WHOLE,
    Row,
    insert_row,
    is_lean,
    lane_of,
    order_columns,
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
    others = change.touches or change.tallies or change.queues or change.notes
    if others:
        return _one_by_one
    if change.inserts:
        if change.writes or change.deletes or any(names_held(job) for job in change.inserts):
            return _one_by_one
        return _insert_run
    if len(change.writes) + len(change.deletes) != 1:
        return _one_by_one
    if change.writes:
        return _write_run if _is_simple(change.writes[0]) else _one_by_one
    return _delete_run if _is_plain(change.deletes[0]) else _one_by_one


def _is_simple(write: Write) -> bool:
    job, state = write.job, write.set.get("state")
    return (
        job.key is None
        and job.weight != 0
        and state is not State.QUEUED
        and (job.unique_key is None or job.state in LIVE)
        and write.set.keys() <= _SIMPLE
    )


def _is_plain(job: Job) -> bool:
    return job.key is None and job.weight != 0 and len(job.payload) <= INLINE_BYTES


# -- short ways ----------------------------------------------------------------------------


def _insert_run(tx: Transaction, changes: list[Change]) -> Iterator[Receipt]:
    ids = _insert(tx, [job for change in changes for job in change.inserts])
    given = 0
    for change in changes:
        count = len(change.inserts)
        yield Receipt(ids=tuple(ids[given : given + count]))
        given += count


def _write_run(tx: Transaction, changes: list[Change]) -> Iterator[Receipt]:
    for fields, run in groupby(changes, key=lambda change: tuple(change.writes[0].set)):
        writes = [change.writes[0] for change in run]
        sql = _guarded_update(fields)
        rows = ((*w.set.values(), w.job.id, w.job.revision, w.job.token) for w in writes)
        done = _in_turn(tx.connection.executemany(sql, rows), [write.job for write in writes])
        moved: Counter[tuple[str, State, State]] = Counter()
        units: Counter[tuple[str, State, State]] = Counter()
        for write, ok in zip(writes, done, strict=True):
            if ok:
                job = write.job
                move = (job.queue, job.state, write.set.get("state", job.state))
                moved[move] += 1
                units[move] += _load_after(write) - load(job)
                yield OK
            else:
                yield Receipt(ok=False, stale=(write.job.id,))
        for move, count in moved.items():
            book = tx.books.queue(move[0])
            tx.books.move_plain(book, move[1], move[2], count, units[move])


def _delete_run(tx: Transaction, changes: list[Change]) -> Iterator[Receipt]:
    jobs = [change.deletes[0] for change in changes]
    rows = ((job.id, job.revision, job.token) for job in jobs)
    deleted = tx.connection.executemany(_SQL["drop_job_guarded"], rows)
    for job, ok in zip(jobs, _in_turn(deleted, jobs), strict=True):
        if ok:
            tx.books.enter(job, -1)
            yield OK
        else:
            yield Receipt(ok=False, stale=(job.id,))


def _in_turn(returned: Iterable[Row], copies: list[Job]) -> list[bool]:
    """Whose rows came back, given that those that did came in order. The revision tells two
    copies of one job apart, of which only the newer can have met its guard."""
    came = [*returned]
    came.reverse()
    done = []
    for copy in copies:
        ok = bool(came) and came[-1] == (copy.id, copy.revision)
        if ok:
            came.pop()
        done.append(ok)
    return done


@cache
def _guarded_update(fields: tuple[str, ...]) -> str:
    return f"{_update(fields)} AND revision = ? AND token IS ? RETURNING id, revision - 1"


@cache
def _update(fields: tuple[str, ...]) -> str:
    columns = "".join(f"{field} = ?, " for field in fields)
    return f"UPDATE job SET {columns}revision = revision + 1 WHERE id = ?"  # noqa: S608


def _load_after(write: Write) -> int:
    state = write.set.get("state", write.job.state)
    if state is State.RUNNING:
        return write.job.weight
    return load(applied(write.job, write)) if state is State.WAITING else 0


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
    twins = find_twins(change, lambda name: _holder(tx, name))
    return Receipt(ok=False, twins=twins) if twins else None


def _unmoved(tx: Transaction, copy: Job) -> bool:
    found = tx.connection.execute(_SQL["guard"], (copy.id,)).get
    return bool(found == (copy.revision, copy.token))


def _held(tx: Transaction, touch: Touch) -> bool:
    found = tx.connection.execute(_SQL["guard"], (touch.id,)).get
    return found is not None and found[1] == touch.token


def _holder(tx: Transaction, name: Name) -> int | None:
    kind, text = name
    found: int | None = tx.connection.execute(_SQL[f"holder_{kind}"], (text,)).get
    return found


def _apply(tx: Transaction, change: Change) -> Receipt:
    for name, settings in change.queues:
        tx.books.configure(name, settings)
    for job in change.deletes:
        _delete(tx, job)
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
    lean: list[Row] = []
    whole: list[Row] = []
    bodies: list[Row] = []
    plain: Counter[str] = Counter()
    for job_id, job in zip(ids, jobs, strict=True):
        book = tx.books.queue(job.queue)
        policy = tx.policies.stored(tx.connection, job.policy)
        row = insert_row(job, job_id, book.id, policy, book.settings)
        if is_lean(row) and job.state is State.QUEUED:
            lean.append(row)
            plain[job.queue] += 1
        else:
            (lean if is_lean(row) else whole).append(row)
            tx.books.enter(job)
        if len(job.payload) > INLINE_BYTES:
            bodies.append((job_id, job.payload))
    for sql, rows in ((INSERT_LEAN, lean), (INSERT_WHOLE, whole), (_SQL["put_body"], bodies)):
        if rows:
            tx.connection.executemany(sql, rows)
    for name, count in plain.items():
        tx.books.add_plain(tx.books.queue(name), count)
    return ids


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
    if columns.keys() & {"key", "weight"}:
        columns["lane"] = lane_of(after.key, after.weight)
    if after.state is State.QUEUED or "rank" in columns:
        columns.pop("rank", None)
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


def _delete(tx: Transaction, job: Job) -> None:
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
