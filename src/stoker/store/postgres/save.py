"""Between the stage and the tables: what changes touch comes in, what became of it goes out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.job import QUEUED, Job, load
from stoker.store import Receipt
from stoker.store.postgres.arrays import Bigints, Texts
from stoker.store.postgres.driver import Connection, together
from stoker.store.postgres.rows import (
    FACTS,
    FREE_LANE,
    INSERT,
    UPDATE,
    Written,
    bucket_of,
    columns,
    job_of,
    lane_of,
    party_of,
    settings_of,
    settings_row,
)
from stoker.store.postgres.schema import named, within
from stoker.store.postgres.stage import Stage, names_wanted, queues_of, touched
from stoker.store.postgres.texts import read, written
from stoker.store.seal import SEAL

_USED = 6

Spot = tuple[str, str, str, int]
"""Queue, party, kind of lane and bucket."""


def read_seal_note(connection: Connection, schema: str, changes: Sequence[Change]) -> bytes | None:
    """The store's seal, if it has one. Whoever is about to set it stands alone from here on."""
    sql = named(schema, "stage.sql")
    if any(note.key == SEAL for change in changes for note in change.notes):
        connection.execute(sql["stand_alone"])
    with together(connection):
        cursor = connection.execute(sql["seal"], [SEAL], binary=True)
    row = cursor.fetchone()
    return None if row is None else row[0]


def load_stage(connection: Connection, schema: str, changes: Sequence[Change], now: int) -> Stage:
    """Read and lock whatever the changes touch, in one round trip."""
    sql, run = named(schema, "stage.sql"), connection.execute
    queues = queues_of(changes)
    parents = {tally.parent_id for change in changes for tally in change.tallies}
    ids, told = Bigints.of(sorted(touched(changes))), Bigints.of(sorted(parents))
    wanted = sorted(names_wanted(changes))
    keys = sorted({note.key for change in changes for note in change.notes})
    stage = Stage()
    with together(connection):
        run(sql["heed"], [Texts.of(sorted(queues)), ids])
        settings = run(sql["settings"], [Texts.of(sorted(queues)), ids])
        facts = sql["jobs"].replace("-- FACTS", f"SELECT {FACTS}")
        jobs = run(facts, [ids])
        payloads = run(sql["payloads"], [told])
        holders = {
            kind: run(sql[f"holders_{kind}"], [Texts.of([text for k, text in wanted if k == kind])])
            for kind in ("unique", "ref")
        }
        notes = run(sql["notes"], [Texts.of(keys), now])
    stage.settings = {read(name): settings_of(text) for name, text in settings}
    stage.payloads = dict(payloads.fetchall())
    for row in jobs:
        job = job_of(row)
        if job.id in stage.payloads:
            job = msgspec.structs.replace(job, payload=stage.payloads[job.id])
        stage.before[job.id] = stage.jobs[job.id] = job
    for kind, found in holders.items():
        stage.names.update({(kind, read(text)): job_id for text, job_id in found})
    stage.notes = {read(key): revision for key, revision in notes}
    stage.notes_there = set(stage.notes)
    return stage


def save_stage(connection: Connection, schema: str, stage: Stage) -> list[int]:
    """Write what has become of everything; gives the ids of the new jobs, in order."""
    sql, run = named(schema, "stage.sql"), connection.execute
    changed = [job for job in stage.jobs.values() if job.id > 0 and stage.before[job.id] is not job]
    fresh = [job for job in stage.jobs.values() if job.id < 0]
    gone = sorted(stage.before.keys() - stage.jobs.keys())
    ids = None
    with together(connection):
        for name, settings in stage.configured.items():
            run(sql["configure"], [written(name), *settings_row(settings)])
        if gone:
            run(sql["delete_jobs"], [Bigints.of(gone)])
        if changed:
            column = columns([_written(stage, job) for job in changed])
            run(within(schema, UPDATE), [*column, Bigints.of([job.id for job in changed])])
        if fresh:
            ids = run(within(schema, INSERT), columns([_written(stage, job) for job in fresh]))
        keep_books(connection, schema, stage)
        for note in stage.note_writes.values():
            _save_note(connection, sql, stage, note)
    return [] if ids is None else [row[0] for row in ids]


def eased_by(connection: Connection, schema: str, stage: Stage) -> set[str]:
    """The queues in which there may be room because something has ended."""
    if not stage.eased:
        return set()
    sql = named(schema, "stage.sql")["eased"]
    with together(connection):
        cursor = connection.execute(sql, [Texts.of(sorted(stage.eased))])
    return {read(name) for (names,) in cursor for name in names}


def _written(stage: Stage, job: Job) -> Written:
    known = stage.payloads.get(job.id)
    stays = job.id > 0 and (known is None or known == job.payload)
    return Written(job, stage.settings_of(job.queue), None if stays else job.payload)


def _save_note(connection: Connection, sql: dict[str, str], stage: Stage, note: NoteWrite) -> None:
    key = written(note.key)
    if note.value is None:
        connection.execute(sql["drop_note"], [key])
        return
    statement = "write_note" if note.key in stage.notes_there else "add_note"
    connection.execute(sql[statement], [key, note.value, note.until, stage.notes[note.key]])


def keep_books(connection: Connection, schema: str, stage: Stage) -> None:
    """Tell the counts and the lanes of queues what has become of the jobs."""
    sql, (books, news, eased) = named(schema, "stage.sql"), _books(stage)
    if books:
        counts = [Bigints.of(each) for each in zip(*books.values(), strict=True)]
        connection.execute(sql["count"], [Texts.of(list(books)), *counts])
    if news:
        *names, buckets = zip(*news, strict=True)
        told = [*(Texts.of(texts) for texts in names), Bigints.of(buckets)]
        connection.execute(sql["tell"], told)
    if eased:
        words = [Texts.of(texts) for texts in zip(*eased, strict=True)]
        connection.execute(sql["make_room"], words)


def _books(stage: Stage) -> tuple[dict[str, list[int]], set[Spot], set[tuple[str, str]]]:
    """What is to be added to the counts of queues, the lanes where somebody came or went, and the
    parties that hold more or less than before."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * (_USED + 1))
    news: set[Spot] = set()
    eased: set[tuple[str, str]] = set()
    for job_id in stage.before.keys() | stage.jobs.keys():
        old, new = stage.before.get(job_id), stage.jobs.get(job_id)
        if old is new:
            continue
        for job, step in ((old, -1), (new, 1)):
            if job is not None:
                counts[job.queue][job.state] += step
                counts[job.queue][_USED] += step * load(job)
                news.update(_spots(stage, job))
                if job.key is not None and load(job) and stage.settings_of(job.queue).limited:
                    eased.add((job.queue, party_of(job.key)))
    return counts, news, eased


def _spots(stage: Stage, job: Job) -> Iterator[Spot]:
    settings = stage.settings_of(job.queue)
    lane = lane_of(job, settings)
    if job.state is QUEUED and lane is not None and lane != FREE_LANE:
        yield (job.queue, party_of(job.key), lane, bucket_of(job.rank, settings)[0])


def numbered(receipt: Receipt, ids: Sequence[int]) -> Receipt:
    """The receipt with the ids that new jobs were given in the end."""
    given = {-1 - place: job_id for place, job_id in enumerate(ids)}
    if receipt.ids:
        own = tuple(given[job_id] for job_id in receipt.ids)
        return msgspec.structs.replace(receipt, ids=own)
    if receipt.twins:
        twins = {place: given.get(job_id, job_id) for place, job_id in receipt.twins.items()}
        return msgspec.structs.replace(receipt, twins=twins)
    return receipt
