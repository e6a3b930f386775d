"""Taking jobs in: nothing said is lost, nothing unsaid is made up."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.errors import BadInput, Duplicate
from stoker.kernel.job import Format, Job, State
from stoker.kernel.policy import PLAIN, OnLost, Policy
from stoker.kernel.retry_forms import by_error, custom, exponential, fixed, linear, listed
from stoker.kernel.window import parse_windows
from stoker.store import Filter, Store
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    DAY,
    Facts,
    exists,
    put,
    seen,
    snapshot,
    take,
    take_all,
)

ODD_TEXTS = [
    "with spaces",
    " around ",
    "näme/☃/\U0001f600",
    'quote\'s "and" `ticks`',
    "line\nbreak\r\n\ttab",
    "100%_;--",
    "NULL",
    "0",
    "x" * 5000,
]

POLICIES = [
    PLAIN,
    Policy(timeout=None),
    Policy(timeout=1),
    Policy(crash_limit=None),
    Policy(crash_limit=1, on_lost=OnLost.FAIL),
    Policy(on_lost=OnLost.RETRY),
    Policy(on_lost=OnLost.STAY),
    Policy(retry=fixed("10s", limit=3)),
    Policy(retry=fixed(0)),
    Policy(retry=linear("5s", step="5s", cap="1m", limit=10)),
    Policy(retry=exponential(5, factor=1.5, jitter=0.25)),
    Policy(retry=listed("1s", "10s", "1m")),
    Policy(retry=custom("billing.retries")),
    Policy(retry=by_error({ValueError: fixed("1s")}, otherwise=custom("x"))),
    Policy(repeat="FINISHED, +1 DAY, START OF DAY"),
    Policy(repeat="every 5m; missed=all:10"),
    Policy(repeat="cron 0 5 * * mon-fri in Europe/Berlin; gap=skip"),
    Policy(windows=parse_windows("mon-fri 05:00-07:00, 22:00-02:00 in Europe/Berlin")),
    Policy(windows=parse_windows("always except 2036-12-25")),
]


def test_a_job_that_asks_for_nothing_is_queued_and_due_at_once(
    desk: Desk, clock: VirtualClock
) -> None:
    job_id = put(desk, payload=b"{}")
    now = clock.now
    assert seen(desk, job_id) == Job(
        "q", payload=b"{}", id=job_id, due_at=now, created_at=now, scheduled_at=now
    )


def test_every_fact_given_with_a_job_is_kept(desk: Desk, clock: VirtualClock) -> None:
    asked = Job(
        queue="mail",
        name="welcome",
        payload=b"\x00\xff",
        format=Format.BYTES,
        rank=-7,
        due_at=clock.now + 5,
        policy=Policy(timeout=99, retry=fixed("1s", limit=2)),
        weight=2500,
        key="ann",
        unique_key="welcome:ann",
        ref="5f0c",
        meta='{"trace": 1}',
    )
    placed = desk.intake.enqueue(asked)
    kept = seen(desk, placed.id)
    for fact in ("queue", "name", "payload", "format", "rank", "due_at", "policy", "weight"):
        assert getattr(kept, fact) == getattr(asked, fact), fact
    for fact in ("key", "unique_key", "ref", "meta"):
        assert getattr(kept, fact) == getattr(asked, fact), fact
    assert (kept.scheduled_at, kept.created_at) == (clock.now + 5, clock.now)
    assert (kept.state, kept.attempt, kept.revision) == (State.QUEUED, 0, 0)


@pytest.mark.parametrize("fact", ["queue", "name", "key", "unique_key", "ref", "meta"])
@pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
def test_any_text_will_do_for_a_name(desk: Desk, fact: str, text: str) -> None:
    job_id = put(desk, **{"queue": "q", fact: text})
    queue = text if fact == "queue" else "q"
    job = take(desk, queue)
    assert (job.id, getattr(job, fact)) == (job_id, text)
    assert seen(desk, job_id) == job
    if fact != "meta":
        by_fact: Facts = {fact: text}
        assert desk.store.find(Filter(**by_fact)) == [job]


def test_a_job_may_have_no_name_and_nothing_to_tell(desk: Desk) -> None:
    job_id = put(desk, name="", meta="")
    job = take(desk)
    assert desk.store.find(Filter(name="")) == [job]
    assert (seen(desk, job_id).name, seen(desk, job_id).meta) == ("", "")


@pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))
def test_a_policy_comes_back_as_it_was_given(desk: Desk, policy: Policy) -> None:
    job_id = put(desk, policy=policy)
    assert seen(desk, job_id).policy == policy


def test_more_than_a_thousand_different_policies_are_kept_apart(desk: Desk) -> None:
    policies = [Policy(timeout=seconds) for seconds in range(1, 1102)]
    placed = desk.intake.enqueue_many([Job("q", policy=policy) for policy in policies])
    jobs = desk.store.get([each.id for each in placed])
    assert [jobs[each.id].policy for each in placed] == policies
    claimed = [desk.dispatch.claim(["q"], 1000), desk.dispatch.claim(["q"], 1000)]
    assert [job.policy for jobs in claimed for job in jobs] == policies


def test_many_jobs_of_one_call_get_rising_ids_in_the_order_given(desk: Desk) -> None:
    names = [f"job {number}" for number in range(300)]
    placed = desk.intake.enqueue_many([Job("q", name=name) for name in names])
    ids = [each.id for each in placed]
    assert all(each.fresh for each in placed)
    assert ids == sorted(set(ids))
    assert [seen(desk, job_id).name for job_id in ids] == names
    assert take_all(desk) == ids


def test_no_jobs_at_all_are_fine(desk: Desk) -> None:
    assert desk.intake.enqueue_many([]) == []


def test_jobs_of_one_call_are_taken_in_all_or_none(desk: Desk, store: Store) -> None:
    put(desk, ref="taken")
    before = snapshot(store)
    with pytest.raises(Duplicate):
        desk.intake.enqueue_many([Job("a"), Job("b", ref="taken"), Job("c")])
    assert snapshot(store) == before


@pytest.mark.parametrize(
    "facts",
    [
        {"payload": "text"},
        {"rank": -(2**63)},
        {"rank": 2**63},
        {"weight": -1},
        {"due_at": 2**62},
        {"name": "\ud800"},
        {"parent_id": 1},
        {"state": State.RUNNING},
    ],
    ids=str,
)
def test_a_job_that_cannot_be_kept_is_refused_with_all_of_its_call(
    desk: Desk, store: Store, facts: Facts
) -> None:
    put(desk)
    before = snapshot(store)
    with pytest.raises(BadInput, match=next(iter(facts))):
        desk.intake.enqueue_many([Job("q"), Job("q", **facts)])
    assert snapshot(store) == before


def test_one_call_may_serve_many_queues(desk: Desk) -> None:
    placed = desk.intake.enqueue_many([Job("a"), Job("b"), Job("a", key="k"), Job("c", weight=0)])
    first, second, third, fourth = (each.id for each in placed)
    assert take_all(desk, "a") == [first, third]
    assert take_all(desk, "b") == [second]
    assert take_all(desk, "c") == [fourth]


def test_a_queue_comes_into_being_when_a_job_names_it(desk: Desk, store: Store) -> None:
    assert store.survey() == []
    put(desk, "never heard of")
    assert [view.name for view in store.survey()] == ["never heard of"]


def test_a_job_is_never_given_out_in_another_queue(desk: Desk) -> None:
    put(desk, "a")
    assert take_all(desk, "b", "A", "a ", "aa") == []


def test_an_id_is_never_used_twice_even_when_its_job_is_gone(desk: Desk) -> None:
    first = put(desk)
    desk.control.delete(first)
    assert not exists(desk, first)
    assert put(desk) > first


def test_a_job_may_be_due_in_the_past(desk: Desk, clock: VirtualClock) -> None:
    late = put(desk)
    early = put(desk, due_at=clock.now - DAY)
    assert take_all(desk) == [early, late]


def test_a_job_may_be_due_in_the_far_future(desk: Desk, clock: VirtualClock) -> None:
    far = clock.now + 5000 * 365 * DAY
    job_id = put(desk, due_at=far)
    assert take_all(desk) == []
    assert seen(desk, job_id).due_at == far
    clock.now = far
    assert take_all(desk) == [job_id]
