"""Handing jobs out: each to one, in one step, exactly as the rule of starting says."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.errors import BadInput
from stoker.kernel import rules
from stoker.kernel.job import Job, State
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import QueueSettings
from stoker.kernel.retry import Again
from stoker.store import Claim, Store
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    HOUR,
    MINUTE,
    SECOND,
    Facts,
    put,
    seen,
    snapshot,
    take,
    take_all,
)

KINDS: list[Job] = [
    Job("q"),
    Job("q", name="n", payload=b"x" * 3000, rank=-3),
    Job("q", key="k"),
    Job("q", weight=0),
    Job("q", key="l", weight=500, meta="m", unique_key="u", ref="r"),
    Job("q", policy=Policy(timeout=None)),
    Job("q", policy=Policy(timeout=MINUTE)),
    Job("q", policy=Policy(on_lost=OnLost.STAY)),
    Job("q", policy=Policy(on_lost=OnLost.STAY, timeout=None)),
    Job("q", policy=Policy(on_lost=OnLost.FAIL, timeout=2 * HOUR)),
]


@pytest.mark.parametrize("bound", [True, False], ids=["with session", "without session"])
@pytest.mark.parametrize("visibility", [None, 30 * SECOND])
def test_claiming_does_to_each_job_what_the_rule_of_starting_says(
    desk: Desk, store: Store, clock: VirtualClock, bound: bool, visibility: int | None
) -> None:
    session = desk.dispatch.open_session(ttl=HOUR) if bound else None
    placed = desk.intake.enqueue_many(KINDS)
    before = store.get([each.id for each in placed])
    clock.pass_(7)
    claimed = desk.dispatch.claim(["q"], 100, session=session, visibility=visibility)
    assert len(claimed) == len(KINDS)
    token = claimed[0].token
    assert token is not None
    assert claimed == [
        rules.start(
            before[job.id], now=clock.now, token=token, session=session, visibility=visibility
        )
        for job in claimed
    ]
    assert store.get(before) == {job.id: job for job in claimed}


def test_a_job_in_its_second_try_is_started_by_the_same_rule(
    desk: Desk, clock: VirtualClock
) -> None:
    put(desk)
    first = take(desk)
    desk.report.touch(first, progress=0.5)
    desk.report.fail(first, BROKEN, verdict=Again(clock.now, b"again", 3))
    before = seen(desk, first.id)
    clock.pass_(1)
    second = take(desk)
    assert second.token is not None
    assert second == rules.start(before, now=clock.now, token=second.token)
    assert (second.attempt, second.progress, second.payload) == (2, 0.0, b"again")
    assert second.token != first.token


def test_an_empty_queue_gives_nothing_and_leaves_no_trace(desk: Desk, store: Store) -> None:
    before = snapshot(store)
    assert take_all(desk) == []
    assert take_all(desk, "q", "other", "glob*") == []
    assert snapshot(store) == before


def test_a_claimed_job_is_given_to_nobody_else(desk: Desk, clock: VirtualClock) -> None:
    put(desk)
    take(desk)
    clock.pass_(3600)
    assert take_all(desk) == []


def test_each_of_many_claims_gets_jobs_of_its_own(desk: Desk) -> None:
    ids = [each.id for each in desk.intake.enqueue_many([Job("q")] * 100)]
    claimed = [desk.dispatch.claim(["q"], 7) for _ in range(16)]
    assert [job.id for jobs in claimed for job in jobs] == ids
    assert len({jobs[0].token for jobs in claimed if jobs}) == 15


def test_a_claim_never_gives_more_than_its_limit(desk: Desk) -> None:
    desk.intake.enqueue_many([Job(f"q{number % 3}") for number in range(9)])
    assert len(desk.dispatch.claim(["q0", "q1", "q2"], 4)) == 4


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_senseless_limit_is_refused(desk: Desk, limit: int) -> None:
    with pytest.raises(BadInput, match="from 1 to 1,000"):
        desk.dispatch.claim(["q"], limit)


@pytest.mark.parametrize("facts", [{}, {"key": "k"}, {"weight": 0}], ids=["plain", "keyed", "free"])
def test_a_job_becomes_claimable_at_its_moment_and_nobody_has_to_move_it(
    desk: Desk, store: Store, clock: VirtualClock, facts: Facts
) -> None:
    job_id = put(desk, due_at=clock.now + 3 * SECOND, **facts)
    clock.now += 3 * SECOND - 1
    before = snapshot(store)
    assert take_all(desk) == []
    assert snapshot(store) == before
    clock.now += 1
    assert take_all(desk) == [job_id]


@pytest.mark.parametrize("facts", [{}, {"key": "k"}, {"weight": 0}], ids=["plain", "keyed", "free"])
def test_a_better_job_that_is_not_due_holds_up_nobody(
    desk: Desk, clock: VirtualClock, facts: Facts
) -> None:
    better = put(desk, rank=-5, due_at=clock.now + SECOND, **facts)
    worse = put(desk, rank=5, **facts)
    assert take_all(desk) == [worse]
    clock.pass_(1)
    assert take_all(desk) == [better]


# -- by pattern ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("mail*", {"mail", "mail.bulk", "mail:näme"}),
        ("*", {"mail", "mail.bulk", "mail:näme", "Mail", "m", "[x]", "bill?"}),
        ("?", {"m"}),
        ("[mM]ail", {"mail", "Mail"}),
        ("mail.[^a]*", {"mail.bulk"}),
        ("[[]x]", {"[x]"}),
        ("bill[?]", {"bill?"}),
        ("mail:n?me", {"mail:näme"}),
        ("MAIL*", set()),
    ],
)
def test_a_glob_claims_from_every_queue_it_matches(
    desk: Desk, pattern: str, expected: set[str]
) -> None:
    for queue in ("mail", "mail.bulk", "mail:näme", "Mail", "m", "[x]", "bill?"):
        put(desk, queue)
    claimed = desk.dispatch.claim([pattern], 100)
    assert {job.queue for job in claimed} == expected
    assert len(claimed) == len(expected)


def test_a_name_without_wildcards_stands_for_itself_among_globs(desk: Desk) -> None:
    plain, by_glob = put(desk, "plain"), put(desk, "glob-1")
    assert take_all(desk, "plain", "glob-*", "plai*") == [plain, by_glob]


def test_a_glob_gives_the_foremost_of_all_its_queues(desk: Desk) -> None:
    put(desk, "job-1", rank=2)
    best = put(desk, "job-2", rank=1)
    assert take(desk, "job-*").id == best


def test_a_pattern_that_is_too_long_is_refused(desk: Desk) -> None:
    with pytest.raises(BadInput, match="at most 256"):
        desk.dispatch.claim(["*" * 257])


def test_names_lists_only_queues_with_queued_jobs(desk: Desk, store: Store) -> None:
    put(desk, "waiting")
    put(desk, "taken")
    take(desk, "taken")
    desk.control.configure("configured", QueueSettings(capacity=1))
    assert store.names("*") == ["waiting"]
    assert store.names("w?iting") == ["waiting"]


# -- paused --------------------------------------------------------------------------------


@pytest.mark.parametrize("facts", [{}, {"key": "k"}, {"weight": 0}], ids=["plain", "keyed", "free"])
def test_a_paused_queue_gives_out_nothing_until_it_goes_on(desk: Desk, facts: Facts) -> None:
    desk.control.configure("q", QueueSettings(paused=True))
    job_id, other = put(desk, **facts), put(desk, "other")
    assert take_all(desk, "q", "other") == [other]
    desk.control.adjust("q", paused=False)
    assert take_all(desk) == [job_id]


def test_jobs_of_a_queue_that_is_paused_run_on(desk: Desk) -> None:
    put(desk)
    job = take(desk)
    desk.control.configure("q", QueueSettings(paused=True))
    assert desk.report.finish(job).state is State.FINISHED


# -- several claims in one step ------------------------------------------------------------


def test_several_claims_in_one_step_are_served_in_turn(desk: Desk, store: Store) -> None:
    first, second, third = (put(desk, rank=rank) for rank in (1, 2, 3))
    claims = [Claim(("q",), 1, 11), Claim(("other", "q"), 1, 22), Claim(("q",), 5, 33)]
    answer = store.transact((), claims)
    grants = [[(job.id, job.token) for job in grant or ()] for grant in answer.grants]
    assert grants == [[(first, 11)], [(second, 22)], [(third, 33)]]


def test_a_dead_session_among_several_claims_gets_none_and_harms_no_other(
    desk: Desk, store: Store
) -> None:
    job_id = put(desk)
    answer = store.transact((), [Claim(("q",), 1, 11, session=404), Claim(("q",), 1, 22)])
    refused, granted = answer.grants
    assert refused is None
    assert granted is not None
    assert [(job.id, job.token) for job in granted] == [(job_id, 22)]
