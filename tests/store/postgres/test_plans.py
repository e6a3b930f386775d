"""How PostgreSQL goes about each statement: by the index that was made for it, never by looking at
every job."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.outcome import Finished
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store.postgres import PostgresStore
from tests.engines import VirtualClock
from tests.store.postgres.watching import Plan, nodes, overheard
from tests.store.sqlite.busy_day import STEPS, desk_at

MAY_BE_SCANNED = {
    "queue": "a few hundred rows with their counts",
    "delta": "what the last commits left, folded every two hundred",
    "news": "what the last commits left, heard with every claim",
    "session": "one row a worker",
    "lock": "one row a chore",
    "note": "kept replies, a minute each",
    "head": "one row a lane, and only when all of a queue is asked for",
    "flow": "one row a key with a rate, and only to forget those that are past",
    "turn": "one row a key in fair queues, and only to forget those that count for nothing",
    "stoker_version": "one row",
    "job_id": "one row",
}


def scanned(plans: list[Plan]) -> set[str]:
    """Tables of which every row was looked at."""
    steps = [step for plan in plans for step in nodes(plan["Plan"])]
    return {step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan"}


def used(plans: list[Plan], table: str = "job") -> set[str]:
    """Indexes by which rows were found."""
    steps = [step for plan in plans for step in nodes(plan["Plan"])]
    names = {step["Index Name"] for step in steps if "Index Name" in step}
    return {name for name in names if name.startswith(table)}


def searches(plans: list[Plan], index: str) -> list[str]:
    """What was said to an index, so that it need not be read from its beginning."""
    steps = [step for plan in plans for step in nodes(plan["Plan"])]
    return [step.get("Index Cond", "") for step in steps if step.get("Index Name") == index]


@pytest.fixture
def fresh(store: PostgresStore) -> PostgresStore:
    """A store whose statistics, if there are any, say that nothing is in it."""
    desk_at(store).dispatch.claim(["q"], 5)
    return store


def test_a_claim_goes_by_the_queues_order_from_the_mark_up_to_now(fresh: PostgresStore) -> None:
    desk = desk_at(fresh)
    desk.intake.enqueue_many([Job("q") for _ in range(500)])
    with overheard(fresh, nested=True) as plans:
        assert len(desk.dispatch.claim(["q"], 20)) == 20
    assert "job" not in scanned(plans)
    assert used(plans) == {"job_ready"}
    assert any(
        all(word in search for word in ("queue =", "bucket =", "due_at <=", "ROW(due_at,"))
        for search in searches(plans, "job_ready")
    )


def test_a_claim_from_several_queues_goes_by_the_order_of_each(fresh: PostgresStore) -> None:
    desk = desk_at(fresh)
    desk.intake.enqueue_many([Job(f"q{n % 3}") for n in range(300)])
    with overheard(fresh, nested=True) as plans:
        assert len(desk.dispatch.claim(["q0", "q1", "q2"], 20)) == 20
    assert "job" not in scanned(plans)
    assert used(plans) == {"job_ready", "job_pkey"}  # the ids are for those who came together


def test_a_claim_of_jobs_that_came_together_goes_by_their_ids(fresh: PostgresStore) -> None:
    desk = desk_at(fresh)
    for _ in range(3):
        desk.intake.enqueue_copies(Job("q"), [b"1"] * 100)
    with overheard(fresh, nested=True) as plans:
        assert len(desk.dispatch.claim(["q"], 150)) == 150
    assert "job" not in scanned(plans)
    assert "run" not in scanned(plans)
    assert used(plans, "run") == {"run_pkey"}
    assert any("id >=" in each and "id <=" in each for each in searches(plans, "job_pkey"))


def plans_of_a_claim_by_keys(store: PostgresStore, limit: int, *, granted: int) -> list[Plan]:
    """Fifty keys with one place each."""
    desk = desk_at(store)
    desk.control.configure("q", QueueSettings(key_capacity=1))
    desk.intake.enqueue_many([Job("q", key=f"{n % 50}") for n in range(200)])
    with overheard(store, nested=True) as plans:
        assert len(desk.dispatch.claim(["q"], limit)) == granted
    return plans


def test_a_claim_from_a_limited_queue_goes_by_the_heads_of_its_lanes(fresh: PostgresStore) -> None:
    plans = plans_of_a_claim_by_keys(fresh, 60, granted=50)
    assert "job" not in scanned(plans)
    assert (
        {"job_laned", "job_holding"}
        <= used(plans)
        <= {
            "job_laned",
            "job_counted",
            "job_holding",
            "job_holding_task",
            "job_ready",
            "job_free",
            "job_pkey",
        }
    )
    assert "head_open" in used(plans, "head")


def test_a_claim_where_all_keys_have_room_goes_by_the_queues_order(fresh: PostgresStore) -> None:
    plans = plans_of_a_claim_by_keys(fresh, 20, granted=20)
    assert "job" not in scanned(plans)
    assert used(plans) <= {"job_counted", "job_holding", "job_ready", "job_free", "job_pkey"}
    assert used(plans, "head") == {"head_full"}
    assert all("bucket =" in search for search in searches(plans, "job_counted")[1:])


POLICIES = {
    "tasks": (QueueSettings(tasks={"t": 50}), {"job_holding_task"}),
    "turns": (QueueSettings(fair=True), {"turn_pkey"}),
    "rates": (
        QueueSettings(key_rate=parse_rate("9 per day"), rate=parse_rate("900/d")),
        {"flow_pkey"},
    ),
    "shares": (QueueSettings(capacity=900, shares={"1": 50}, lend=True), {"job_holding"}),
    "ageing": (QueueSettings(ageing=1000), {"job_ready"}),
    "sharing": (QueueSettings(within="outer"), {"queue_within"}),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_claim_with_care_goes_by_indexes_all_the_way(fresh: PostgresStore, policy: str) -> None:
    settings, wanted = POLICIES[policy]
    desk = desk_at(fresh)
    desk.control.configure("outer", QueueSettings(capacity=500))
    desk.control.configure("q", settings)
    jobs = [Job("q", "tu"[n % 2], key=f"{n % 50}" if n % 7 else None) for n in range(400)]
    desk.intake.enqueue_many(jobs)
    taken = desk.dispatch.claim(["q"], 20)
    with overheard(fresh, nested=True) as plans:
        request = desk.dispatch.request(["q"], 20)
        _, grants = desk.report.many([(job, Finished()) for job in taken], [request])
    assert len(grants[0] or ()) == 20
    assert scanned(plans) <= {"queue", "delta", "news", "note"}
    assert used(plans, "") >= wanted
    assert "head_open" in used(plans, "head")
    assert all("queue =" in search for search in searches(plans, "head_open"))


def test_a_report_goes_by_the_ids(fresh: PostgresStore) -> None:
    desk = desk_at(fresh)
    desk.intake.enqueue_many([Job("q") for _ in range(100)])
    jobs = desk.dispatch.claim(["q"], 50)
    with overheard(fresh, nested=True) as plans:
        for job in jobs:
            desk.report.finish(job)
    assert "job" not in scanned(plans)
    assert used(plans) == {"job_pkey"}


def test_no_statement_of_a_whole_day_looks_at_all_jobs(
    store: PostgresStore, clock: VirtualClock
) -> None:
    """Small tables are read whole with good reason; so we ask for the other way where there is
    one, and see that there always is."""
    with overheard(store, nested=True) as plans:
        store._use(lambda connection: connection.execute("SET enable_seqscan = off"))
        for step in STEPS:
            step(desk_at(store), clock)
    assert scanned(plans) - MAY_BE_SCANNED.keys() == set()
    assert used(plans) >= {
        "job_pkey",
        "job_ready",
        "job_laned",
        "job_running",
        "job_waiting",
        "job_waiting_until",
        "job_kept_until",
        "job_adrift",
        "job_ref",
        "job_unique",
    }


def test_the_scan_of_a_new_statement_is_noticed(store: PostgresStore) -> None:
    desk = Desk(store)
    desk.intake.enqueue(Job("q", name="n"))
    with overheard(store, nested=True) as plans:
        store._use(lambda connection: connection.execute("SET enable_seqscan = off"))
        store._use(
            lambda connection: connection.execute(
                f'SELECT id FROM "{store.address.schema}".job WHERE created_at < 7'  # noqa: S608
            )
        )
    assert scanned(plans) == {"job"}
