"""Ending jobs in transactions of the caller's own: the effect and the end together."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from stoker import Context, JobFailed, Stoker
from stoker.errors import LeaseLost
from stoker.kernel.job import Job, State
from tests.servers.postgres import Server
from tests.store.outsiders import Spoilt, at_work
from tests.store.postgres.within.connections import awaited, connections, roll_back, run


def test_an_effect_and_the_end_of_its_job_are_committed_together(
    app: Stoker, server: Server, connection: psycopg.Connection
) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS effect (job bigint)")
    connection.execute("DELETE FROM effect")

    @app.task(retry="fixed 10ms x2")
    def work(context: Context) -> dict[str, int]:
        with psycopg.connect(server.url()) as own:
            own.execute("INSERT INTO effect VALUES (%s)", [context.job.id])
            context.finish({"try": context.attempt}, within=own)
            if context.attempt == 1:
                raise Spoilt
        return {"does not count": 0}

    with at_work(app):
        assert work.enqueue().wait(timeout="60s") == {"try": 2}
    assert connection.execute("SELECT count(*) FROM effect").fetchone() == (1,)
    connection.execute("DROP TABLE effect")


def test_a_handler_that_leaves_its_transaction_open_has_failed(app: Stoker, server: Server) -> None:
    open_ones = []

    @app.task
    def work(context: Context) -> None:
        own = psycopg.connect(server.url())
        open_ones.append(own)
        context.finish(within=own)

    with at_work(app):
        job = work.enqueue()
        while not open_ones or not _is_waited_for(server):
            pass  # nobody can write to the job as long as the transaction is open
        open_ones[0].close()
        with pytest.raises(JobFailed, match="was not committed"):
            job.wait(timeout="60s")


def _is_waited_for(server: Server) -> bool:
    with psycopg.connect(server.url()) as other:
        row = other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
        return row != (0,)


@connections
def test_whoever_has_lost_its_lease_cannot_commit(opened: Any, app: Stoker, server: Server) -> None:
    desk = app.desk
    desk.intake.enqueue(Job("q"))
    (job,) = desk.dispatch.claim(["q"])
    desk.report.release(job)
    (again,) = desk.dispatch.claim(["q"])
    with pytest.raises(LeaseLost, match=f"job {job.id} is no longer yours"), opened(server) as own:
        desk.report.finish_within(own, job)
    with opened(server) as own:
        with pytest.raises(LeaseLost):
            desk.report.finish_within(own, job)
        with pytest.raises(Exception, match=r"aborted|rolled back"):
            run(own, "SELECT 1")
        roll_back(own)
    assert desk.store.get([job.id])[job.id] == again


@awaited
def test_an_awaited_connection_ends_jobs_as_well(opened: Any, app: Stoker, server: Server) -> None:
    desk = app.desk
    desk.intake.enqueue_many([Job("q"), Job("q")])
    first, second = desk.dispatch.claim(["q"], 2)
    desk.report.release(second)

    async def end() -> None:
        async with opened(server) as connection:
            await desk.report.afinish_within(connection, first, b"1")
        with pytest.raises(LeaseLost):
            async with opened(server) as connection:
                await desk.report.afinish_within(connection, second)

    asyncio.run(end())
    states = [desk.store.get([job.id])[job.id].state for job in (first, second)]
    assert states == [State.FINISHED, State.QUEUED]
