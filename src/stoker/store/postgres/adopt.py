"""Taking over jobs of another store as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stoker.kernel.job import Job, partition_of
from stoker.store.postgres.arrays import Bigints, Texts
from stoker.store.postgres.driver import Connection, transaction
from stoker.store.postgres.rows import ADOPT, Written, columns, settings_of
from stoker.store.postgres.save import keep_books
from stoker.store.postgres.schema import named, within
from stoker.store.postgres.stage import Stage
from stoker.store.postgres.texts import read
from stoker.store.twins import Name, names_held


def adopt_all(connection: Connection, schema: str, jobs: Sequence[Job]) -> None:
    """Put jobs in place of whatever has their ids or names here."""
    sql, kept = named(schema, "adopt.sql"), _without_twins(jobs)
    names = {name for job in kept for name in names_held(job)}
    ids = Bigints.of([job.id for job in kept])
    stage = Stage()
    stage.jobs = {job.id: job for job in kept}
    with transaction(connection):
        connection.execute(sql["stand_alone"])
        settings = connection.execute(sql["settings"], [Texts.of([job.queue for job in kept])])
        stage.settings = {read(name): settings_of(text) for name, text in settings}
        held = [Texts.of([text for kind, text in names if kind == k]) for k in ("unique", "ref")]
        connection.execute(sql["displace"], [ids, *held])
        if kept:
            rows = [Written(job, stage.settings_of(job.queue), job.payload) for job in kept]
            connection.execute(within(schema, ADOPT), [*columns(rows), ids])
            keep_books(connection, schema, stage)
        own = [job.id for job in kept if not partition_of(job.id)]
        connection.execute(sql["skip_ids"], [max(own, default=0)])


def _without_twins(jobs: Iterable[Job]) -> list[Job]:
    """Of jobs with the same id or name, the last."""
    kept: dict[int, Job] = {}
    holders: dict[Name, int] = {}
    for job in jobs:
        for name in names_held(job):
            holder = holders.get(name)
            if holder is not None:
                kept.pop(holder, None)
            holders[name] = job.id
        kept[job.id] = job
    return list(kept.values())
