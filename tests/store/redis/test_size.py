"""What jobs take in memory, and that nothing is left of those that are gone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.rate import parse_rate
from stoker.store import Filter
from stoker.store.redis import RedisStore
from stoker.watch import run_chores
from tests.engines import SECOND, VirtualClock
from tests.servers import valkey
from tests.servers.valkey import Server
from tests.store.conformance.acts import DAY, put, take

MOST_BYTES = 350
JOBS = 20_000
FIXED = {"id", "meta"}


def memory(client: Any) -> int:
    """Bytes in use, without what connections have in passing."""
    told = client.info("memory")
    return int(told["used_memory"] - told["mem_clients_normal"])


@pytest.mark.parametrize("program", valkey.programs())
def test_a_queued_job_takes_few_bytes_beside_its_payload(program: str) -> None:
    with valkey.server(program=program) as server, server.client() as client:
        store = RedisStore(server.url())
        desk = Desk(store)
        desk.intake.enqueue_copies(Job("q", "name"), [b"x" * 100] * 500)
        before = memory(client)
        for _ in range(JOBS // 500):
            desk.intake.enqueue_copies(Job("q", "name"), [b"x" * 100] * 500)
        each = (memory(client) - before) / JOBS - 100
        store.close()
    print(f"{program}: {each:.0f} bytes for each queued job beside its payload")
    assert each <= MOST_BYTES


def keys(server: Server, prefix: str) -> set[str]:
    """What is left, without the answers that the server remembers for a minute."""
    with server.client() as client:
        found = client.scan_iter(match=f"{{{prefix}.*", count=10_000)
        names = {key.decode().partition("}:")[2] for key in found}
    return {name for name in names if not name.startswith("a:")}


def test_nothing_is_left_of_jobs_that_are_gone(
    server: Server, prefix: str, store: RedisStore, clock: VirtualClock
) -> None:
    desk = Desk(store, dice=lambda: 0.0)
    dice = random.Random(1)
    live_through_everything(desk, clock, dice)
    for job in store.find(Filter(limit=1000)):
        if job.state in (State.QUEUED, State.WAITING):
            desk.control.cancel(job.id)
    for queue in ("q", "r"):
        desk.control.configure(queue, QueueSettings())
    for session in store.sessions():
        store.retire(session.id)
    for _ in range(3):
        clock.pass_(40 * DAY / SECOND)
        run_chores(desk.clerk, "me")
    assert store.find(Filter()) == []
    clock.pass_(1000)
    store.tidy()
    assert keys(server, prefix) == FIXED


def live_through_everything(desk: Desk, clock: VirtualClock, dice: random.Random) -> None:
    """Jobs of all kinds, on all ways, some of them left in the middle."""
    session = desk.dispatch.open_session("w", ttl=10 * SECOND)
    desk.control.configure("r", QueueSettings(capacity=3, key_capacity=1))
    for number in range(300):
        desk.intake.enqueue(
            Job(
                dice.choice(["q", "r"]),
                payload=b"x" * dice.choice([0, 3000]),
                rank=dice.choice([0, 1]),
                key=dice.choice([None, "a", "b"]),
                weight=dice.choice([0, 500, 1000]),
                unique_key=f"u{number}" if dice.random() < 0.3 else None,
                ref=f"r{number}" if dice.random() < 0.3 else None,
                due_at=clock.now + dice.choice([0, 0, 60 * SECOND]),
            )
        )
        for job in desk.dispatch.claim(["q", "r"], dice.randint(0, 3) or 1, session=session):
            end = dice.choice(["finish", "release", "spawn", "cancel", "lose"])
            if end == "finish":
                desk.report.finish(job, b"result")
            elif end == "release":
                desk.report.release(job)
            elif end == "spawn":
                desk.intake.spawn(job, [Job("q"), Job("r", key="a")])
                desk.report.finish(desk.store.get([job.id])[job.id])
            elif end == "cancel":
                desk.control.cancel(job.id)
        desk.dispatch.beat(session, ttl=10 * SECOND)
        clock.pass_(0.1)
    desk.control.reply("nobody asked", b"1")


def test_jobs_that_are_not_kept_leave_nothing_at_once(
    server: Server, prefix: str, store: RedisStore
) -> None:
    desk = Desk(store)
    desk.control.configure("q", QueueSettings(retention=Retention(finished=0)))
    for _ in range(3):
        put(desk)
        desk.report.finish(take(desk))
    store.tidy()
    assert keys(server, prefix) == FIXED | {"queues", "q:q"}


def test_limits_leave_nothing_behind_when_the_jobs_are_gone(
    server: Server, prefix: str, store: RedisStore, clock: VirtualClock
) -> None:
    desk = Desk(store)
    hour = parse_rate("20 per hour")
    limits: dict[str, Any] = {"rate": hour, "key_rate": hour, "tasks": {"t": 20}, "fair": True}
    desk.control.configure("q", QueueSettings(retention=Retention(finished=0), **limits))
    for number in range(30):
        put(desk, key=str(number), name="t", due_at=clock.now + number % 2 * SECOND)
    while jobs := desk.dispatch.claim(["q"], 30):
        for job in jobs:
            desk.report.finish(job)
        clock.pass_(4000)
    desk.control.configure("q", QueueSettings())
    store.tidy()
    assert {key for key in keys(server, prefix) if not key.startswith("m:")} == FIXED


def test_no_key_grows_with_the_jobs_but_the_line_they_stand_in(
    server: Server, prefix: str, store: RedisStore
) -> None:
    Desk(store).intake.enqueue_copies(Job("q"), [b"1"] * 2000)
    with server.client() as client:
        bodies = client.scan_iter(match=f"{{{prefix}.0}}:j:*", count=10_000)
        sizes = [client.hlen(key) for key in bodies]
    assert (max(sizes), sum(sizes)) == (256, 2000)
