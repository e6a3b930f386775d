"""What others' transactions commit is the same as what any other way commits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg
import pytest

from stoker.errors import LeaseLost
from stoker.kernel.change import Change
from stoker.kernel.job import Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order, QueueSettings
from stoker.store import Answer, Claim, Filter, Receipt
from stoker.store.memory import MemoryStore
from stoker.store.postgres import PostgresStore
from tests.engines import START, VirtualClock
from tests.model.lives import Lives, SeededChooser
from tests.model.postgres_books import assert_books_balance
from tests.servers.postgres import Server
from tests.store.outsiders import HOUR
from tests.store.sqlite.busy_day import desk_at


class WithinStore(PostgresStore):
    """A store that lets every Change be committed by a connection of somebody else's, if it can."""

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        receipts = [self._committed(change) for change in changes]
        return Answer(receipts, super().transact((), claims).grants)

    def _committed(self, change: Change) -> Receipt:
        others = change.touches or change.queues or change.notes
        if others or (change.inserts and (change.writes or change.deletes or change.tallies)):
            return super().transact([change]).receipts[0]
        with psycopg.connect(self.address.conninfo) as connection:
            try:
                receipt = self.commit_within(connection, change)
            except (LeaseLost, psycopg.errors.UniqueViolation):
                connection.rollback()
                return super().transact([change]).receipts[0]  # which tells what is stale
        self._note(change)
        ids = [tally.parent_id for tally in change.tallies] if receipt.ok else []
        parents = self.get(ids)
        return Receipt(
            receipt.ok,
            receipt.ids,
            twins=receipt.twins,
            parents=tuple(parents[each] for each in dict.fromkeys(ids) if each in parents),
        )

    def _note(self, change: Change) -> None:
        """What a process learns of others' commits within a second, at once."""
        for job in self.find(Filter(states=(State.QUEUED,), limit=1000)):
            self._marks.placed(job.queue, job.due_at)


@pytest.mark.parametrize("seed", range(3))
def test_random_lives_agree_when_others_commit(seed: int, url: str) -> None:
    clock = VirtualClock()
    store = WithinStore(url, clock=clock)
    lives = Lives(SeededChooser(seed), clock, MemoryStore(clock), store)
    for step in range(1, 121):
        lives.step()
        if step % 20 == 0:
            assert_books_balance(store)
    store.close()


def test_a_job_is_placed_by_the_settings_of_its_queue(store: Any, server: Server) -> None:
    desk = desk_at(store)
    desk.control.configure("q", QueueSettings(key_capacity=1, order=Order.TIME_RANK))
    policy = Policy(timeout=HOUR, repeat="every 1h")
    with psycopg.connect(server.url()) as connection:
        desk.intake.enqueue_within(
            connection,
            [Job("q", key="k", rank=n, due_at=START - 9 + n, policy=policy) for n in (3, 1, 2)],
        )
    assert [job.rank for job in desk.dispatch.claim(["q"], 5)] == [1]
    assert_books_balance(store)


def test_a_job_of_a_limited_task_finds_its_lane_and_makes_room_when_it_ends(
    store: Any, server: Server
) -> None:
    desk = desk_at(store)
    desk.control.configure("q", QueueSettings(tasks={"t": 1}, within="outer"))
    desk.control.configure("p", QueueSettings(within="outer"))
    with psycopg.connect(server.url()) as connection:
        jobs = [Job("q", "t", key=key) for key in ("a", None)]
        first, second = desk.intake.enqueue_within(connection, jobs)
    (job,) = desk.dispatch.claim(["q"], 5)
    assert job.id == first.id
    with closing(store.bell.listen()) as ear:
        with psycopg.connect(server.url()) as connection:
            desk.report.finish_within(connection, job)
        heard: set[str] = set()
        while not heard >= {"q", "p", "outer"}:
            heard |= ear.wait(10)
    assert [job.id for job in desk.dispatch.claim(["q"], 5)] == [second.id]
    assert_books_balance(store)
