"""Many at once: processes that claim, threads that decide about the same jobs."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from stoker.desk import Desk
from stoker.kernel.change import Change, Write
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.rate import Flow, parse_rate
from stoker.store import Filter
from stoker.store.postgres import PostgresStore
from tests.store.sqlite.process import Process

CLAIMING = """
from stoker.store.open import open_store
desk = Desk(open_store(sys.argv[1]))
say("ready")
wait_for_a_word()
jobs, taken = [], []
while True:
    request = desk.dispatch.request(["q", "r"], int(sys.argv[2]))
    _, grants = desk.report.many([(job, Finished()) for job in jobs], [request])
    jobs = grants[0]
    if not jobs:
        break
    taken += [job.id for job in jobs]
say(" ".join(map(str, taken)))
"""

WITHIN_LIMITS = """
from stoker.store.open import open_store
desk = Desk(open_store(sys.argv[1]))
say("ready")
wait_for_a_word()
most = done = 0
while done < int(sys.argv[2]):
    jobs = desk.dispatch.claim(["q"], 3)
    running = desk.store.find(Filter(queue="q", states=(State.RUNNING,), limit=100))
    used = sum(job.weight for job in running)
    of_key = max((sum(job.weight for job in running if job.key == key) for key in "ab"), default=0)
    most = max(most, used, of_key * 3)
    for job in jobs:
        desk.report.finish(job)
    done = desk.store.survey(["q"])[0].counts[State.FINISHED]
say(str(most))
"""

IMPORTS = """
from stoker.kernel.job import State
from stoker.kernel.outcome import Finished
from stoker.store import Filter
"""


def in_processes(code: str, count: int, *arguments: Any) -> list[str]:
    """What processes say that do the same, all from the same moment on."""
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(IMPORTS + code, *arguments)) for _ in range(count)]
        for process in processes:
            assert process.hear() == "ready"
        for process in processes:
            process.tell("go")
        return [process.hear() for process in processes]


def test_processes_that_claim_at_once_never_get_the_same_job(url: str) -> None:
    store = PostgresStore(url)
    Desk(store).intake.enqueue_many([Job("qr"[n % 2], rank=n % 3) for n in range(3000)])
    taken = [line.split() for line in in_processes(CLAIMING, 3, url, 17)]
    counts = Counter(job for jobs in taken for job in jobs)
    assert set(counts.values()) == {1}
    assert len(counts) == 3000
    assert {view.name: view.counts[State.FINISHED] for view in store.survey()} == {
        "q": 1500,
        "r": 1500,
    }
    store.close()


def test_limits_hold_however_many_claim_at_once(url: str) -> None:
    store = PostgresStore(url)
    desk = Desk(store)
    desk.control.configure("q", QueueSettings(capacity=6, key_capacity=2))
    desk.intake.enqueue_many([Job("q", key="ab"[n % 2], weight=500) for n in range(120)])
    most = [int(word) for word in in_processes(WITHIN_LIMITS, 3, url, 120)]
    assert max(most) <= 6000
    assert store.survey(["q"])[0].used == 0
    store.close()


SHARED = """
from stoker.store.open import open_store
desk = Desk(open_store(sys.argv[1]))
say("ready")
wait_for_a_word()
queue, most, done = sys.argv[2], 0, 0
while done < 40:
    jobs = desk.dispatch.claim([queue], 2)
    views = desk.store.survey(["p", "q"])  # one statement: one and the same moment
    most = max(most, sum(view.used for view in views))
    for job in jobs:
        desk.report.finish(job)
    done = sum(view.counts[State.FINISHED] for view in views if view.name == queue)
say(str(most))
"""


def test_a_limit_of_several_queues_holds_however_many_claim_at_once(url: str) -> None:
    store = PostgresStore(url)
    desk = Desk(store)
    desk.control.configure("outer", QueueSettings(capacity=2, rate=parse_rate("1000 per second")))
    for queue in "pq":
        desk.control.configure(queue, QueueSettings(within="outer", fair=queue == "p"))
        desk.intake.enqueue_many([Job(queue, key="ab"[n % 2]) for n in range(40)])
    with ThreadPoolExecutor() as pool:
        words = list(pool.map(lambda queue: in_processes(SHARED, 2, url, queue), "pq"))
    assert max(int(word) for said in words for word in said) <= 2000
    assert [view.used for view in store.survey(["p", "q"])] == [0, 0]
    store.close()


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(key_capacity=1),
        QueueSettings(key_capacity=1, fair=True),
        QueueSettings(capacity=5, key_capacity=1),
        QueueSettings(key_capacity=2, keys={"k": 1}),
        QueueSettings(capacity=5, fair=True, key_capacity=1),
        QueueSettings(capacity=1),
    ],
)
def test_whom_somebody_else_has_held_meanwhile_takes_nobodys_place(
    store: PostgresStore, connection: psycopg.Connection, settings: QueueSettings
) -> None:
    desk = Desk(store)
    desk.control.configure("q", settings)
    jobs = [Job("q", key="k", rank=rank) for rank in (0, 0, 1)]
    first, *others = [placed.id for placed in desk.intake.enqueue_many(jobs)]
    with connection.transaction():
        held = f'SELECT FROM "{store.address.schema}".job WHERE id = %s FOR UPDATE'
        connection.execute(held, [first])
        taken = desk.dispatch.claim(["q"], 5)
    for expected in [first, *others]:
        taken = taken or desk.dispatch.claim(["q"], 5)
        assert [job.id for job in taken] == [expected]
        desk.report.finish(taken[0])
        taken = []


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(),
        QueueSettings(order=Order.TIME_RANK),
        QueueSettings(capacity=9),
        QueueSettings(key_capacity=5),
        QueueSettings(fair=True),
    ],
)
def test_whom_somebody_else_has_held_comes_next_when_he_lets_go(
    store: PostgresStore, connection: psycopg.Connection, settings: QueueSettings
) -> None:
    desk = Desk(store)
    desk.control.configure("q", settings)
    jobs = [Job("q", key=f"k{n % 3}") for n in range(9)]
    first = desk.intake.enqueue_many(jobs)[0].id
    with connection.transaction():
        held = f'SELECT FROM "{store.address.schema}".job WHERE id = %s FOR UPDATE'
        connection.execute(held, [first])
        meanwhile = {job.id for job in desk.dispatch.claim(["q"], 2)}
        assert meanwhile
        assert first not in meanwhile
    soon = [job.id for _ in range(3) for job in desk.dispatch.claim(["q"], 2)]
    assert first in soon


def test_a_job_that_somebody_else_has_taken_meanwhile_is_not_charged(
    store: PostgresStore, connection: psycopg.Connection
) -> None:
    desk = Desk(store)
    desk.control.configure("q", QueueSettings(fair=True, key_rate=parse_rate("1 per minute")))
    first, second = desk.intake.enqueue_many([Job("q", key="k"), Job("q", key="l")])
    with connection.transaction():
        held = f'SELECT FROM "{store.address.schema}".job WHERE id = %s FOR UPDATE'
        connection.execute(held, [first.id])
        assert [job.id for job in desk.dispatch.claim(["q"], 5)] == [second.id]
    assert store.flows("q", ["=k", "=l"]).keys() == {"=l"}
    assert [job.id for job in desk.dispatch.claim(["q"], 5)] == [first.id]


def test_a_limit_that_is_set_while_others_claim_holds_from_then_on(url: str) -> None:
    store = PostgresStore(url)
    desk, other = Desk(store), Desk(store)
    desk.intake.enqueue_many([Job("q") for _ in range(500)])
    excess: list[int] = []
    enough = threading.Event()

    def keep_claiming() -> None:
        while not enough.is_set():
            for job in other.dispatch.claim(["q"], 5):
                other.report.finish(job)

    threads = [threading.Thread(target=keep_claiming) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        desk.control.configure("q", QueueSettings(capacity=1))
        # Whoever claimed before the limit may still hold its jobs; nobody gets more on top.
        claimed = desk.dispatch.claim(["q"], 5)
        if len(claimed) > 1:
            excess.append(len(claimed))
        for job in claimed:
            desk.report.finish(job)
        desk.control.configure("q", QueueSettings())
    enough.set()
    for thread in threads:
        thread.join()
    assert excess == []
    assert store.survey(["q"])[0].used == 0
    store.close()


def test_batches_about_the_same_jobs_never_wait_in_a_circle(
    url: str, connection: psycopg.Connection
) -> None:
    store = PostgresStore(url)
    desk = Desk(store)
    desk.intake.enqueue_many([Job("q") for _ in range(40)])
    failures: list[BaseException] = []

    def meddle(backwards: bool) -> None:
        try:
            for _ in range(25):
                jobs = store.find(Filter(limit=40, newest_first=backwards))
                changes = [Change(writes=(Write(job, {"meta": "m"}),)) for job in jobs]
                together = Change(writes=tuple(Write(job, {"meta": "n"}) for job in jobs))
                store.transact(changes)
                store.transact([together])
        except BaseException as error:  # noqa: BLE001 - told in the end
            failures.append(error)

    before = deadlocks(connection)
    threads = [threading.Thread(target=meddle, args=(n % 2 == 0,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert deadlocks(connection) == before
    store.close()


def deadlocks(connection: psycopg.Connection) -> int:
    row = connection.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_of_many_who_enqueue_the_same_name_at_once_one_succeeds(url: str) -> None:
    store = PostgresStore(url)
    receipts: list[bool] = []

    def enqueue() -> None:
        for number in range(20):
            names = [f"{(number + n) % 20}" for n in range(3)]
            jobs = tuple(Job("q", due_at=1, unique_key=name) for name in names)
            receipts.append(store.transact([Change(inserts=jobs)]).receipts[0].ok)

    threads = [threading.Thread(target=enqueue) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = [job.unique_key for job in store.find(Filter(limit=1000))]
    assert len(keys) == len(set(keys)) == 3 * sum(receipts) > 0
    store.close()


def test_counts_are_right_after_many_wrote_at_once(url: str) -> None:
    store = PostgresStore(url, connections=4)

    def work(name: str) -> None:
        desk = Desk(store)
        for _ in range(60):
            desk.intake.enqueue_many([Job(name), Job("shared")])
            jobs = desk.dispatch.claim([name, "shared"], 2)
            desk.report.many([(job, Finished()) for job in jobs])

    threads = [threading.Thread(target=work, args=(f"own-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    there = Counter((job.queue, job.state) for job in store.find(Filter(limit=10_000)))
    surveyed = {
        (view.name, state): count
        for view in store.survey()
        for state, count in view.counts.items()
        if count
    }
    assert surveyed == there
    store.tidy()
    assert {view.name for view in store.survey()} == {queue for queue, _ in there}
    store.close()


BUCKET = parse_rate("3 per minute, burst 3")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (QueueSettings(capacity=1, rate=BUCKET), None),
        (QueueSettings(capacity=1, key_rate=BUCKET), "k"),
    ],
)
def test_a_job_starts_and_a_rate_counts_it_when_what_made_room_for_it_has_been_seen(
    url: str, connection: psycopg.Connection, settings: QueueSettings, key: str | None
) -> None:
    """Else its start would be before the end of a job that had its place, and a rate would be over
    before its time. A search takes its time: here somebody keeps it from looking."""
    store = PostgresStore(url)
    desk = Desk(store)
    desk.control.configure("q", settings)
    desk.intake.enqueue(Job("q", key=key))
    with ThreadPoolExecutor() as pool:
        with connection.transaction():
            connection.execute(f'LOCK TABLE "{store.address.schema}".delta')
            claimed = pool.submit(desk.dispatch.claim, ["q"])
            while not connection.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
                assert not claimed.done()
            ((moment,),) = connection.execute(
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
            ).fetchall()
        (job,) = claimed.result()
    flow = Flow(BUCKET, "", job.started_at or 0)
    flow.take(job.weight)
    assert job.started_at is not None
    assert job.started_at > moment
    assert {*store.flows("q", ["", "=k"]).values()} == {flow.state}
    store.close()
