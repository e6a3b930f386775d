"""The ledger notices everything it is there for, and nothing that did not happen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from stoker.kernel.job import Job, State
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.rate import Rate
from stoker.store import QueueView
from tests.faults.actors import unanswered_offers
from tests.faults.cargo import Cargo
from tests.faults.evidence import Evidence
from tests.faults.figures import figures, quantile, recovery_times, table
from tests.faults.journal import (
    Declined,
    Deed,
    Entry,
    Farewell,
    Granted,
    Journal,
    Lease,
    Offer,
    Placed,
    Pulse,
    Ruled,
    Sample,
    Try,
    read_journal,
    read_journals,
)
from tests.faults.ledger import violations

TTL = 100


def offer(*tags: str, due_at: int = 0, at: int = 0) -> Offer:
    return Offer(at=at, batch="b", tags=list(tags), dues=[due_at] * len(tags))


def placed(*ids: int) -> Placed:
    return Placed(at=1, batch="b", ids=list(ids))


def pulse(session: int, at: int) -> Pulse:
    return Pulse(at=at, session=session, ttl=TTL)


def granted(
    token: int, started_at: int, revision: int, *, job: int = 1, key: str | None = None
) -> Granted:
    """A grant of one job; the session has the token's number."""
    lease = Lease(job, revision, 0, started_at, "q", key, 1000)
    return Granted(at=started_at, token=token, session=token, leases=[lease])


def tried(token: int, at: int, *, job: int = 1) -> Try:
    return Try(at=at, job=job, token=token, what="finish")


def ruled(
    token: int, at: int, state: State = State.FINISHED, *, job: int = 1, due_at: int = 0
) -> Ruled:
    return Ruled(at=at, job=job, token=token, state=state, due_at=due_at)


def refused(token: int, at: int, *, job: int = 1) -> Ruled:
    return Ruled(at=at, job=job, token=token, refused="lease_lost")


def run(token: int, started_at: int, revision: int, *, job: int = 1) -> list[Entry]:
    """A run from claim to accepted finish, which takes 10 microseconds."""
    return [
        pulse(token, started_at - 1),
        granted(token, started_at, revision, job=job),
        tried(token, started_at + 9, job=job),
        ruled(token, started_at + 10, job=job),
    ]


def finished(job_id: int, tag: str, token: int = 7) -> Job:
    return Job(
        "q",
        id=job_id,
        payload=msgspec.json.encode(Cargo(tag)),
        state=State.FINISHED,
        result=str(token).encode(),
    )


def queued(job_id: int, tag: str) -> Job:
    return Job("q", id=job_id, payload=msgspec.json.encode(Cargo(tag)))


def view(settings: QueueSettings = DEFAULTS, *, used: int = 0, **counts: int) -> QueueView:
    return QueueView("q", settings, {State[name]: n for name, n in counts.items()}, used)


def evidence(
    jobs: Sequence[Job], *logs: Sequence[Entry], views: Sequence[QueueView] | None = None
) -> Evidence:
    """What actors 0, 1, 2 ... wrote down, and what the store holds; its counts are right."""
    if views is None:
        states = [job.state.name for job in jobs]
        views = [view(DEFAULTS, **{name: states.count(name) for name in states})]
    return Evidence({f"actor-{i}": log for i, log in enumerate(logs)}, jobs, views)


def found(evidence: Evidence) -> dict[str, list[str]]:
    return {name: sentences for name, sentences in violations(evidence).items() if sentences}


def test_a_job_that_was_placed_claimed_and_finished_once_balances() -> None:
    assert found(evidence([finished(1, "b.0")], [offer("b.0"), placed(1)], run(7, 10, 1))) == {}


# -- intake --------------------------------------------------------------------------------


def test_an_acknowledged_job_that_is_not_there_is_lost() -> None:
    assert found(evidence([], [offer("b.0"), placed(1)])) == {
        "lost": ["job 1 (b.0) was acknowledged and is gone"]
    }


def test_a_job_that_became_another_is_lost() -> None:
    log = [offer("b.0", "b.1"), placed(1, 2)]
    assert found(evidence([finished(1, "b.1"), finished(2, "b.0")], log)) == {
        "lost": [
            "job 1 was acknowledged as b.0 and is b.1",
            "job 2 was acknowledged as b.1 and is b.0",
        ]
    }


@pytest.mark.parametrize("jobs", [[], [finished(1, "b.0"), finished(2, "b.1")]])
def test_an_offer_without_an_answer_may_be_there_or_not(jobs: list[Job]) -> None:
    assert found(evidence(jobs, [offer("b.0", "b.1")])) == {}


def test_an_offer_of_which_a_part_is_there_is_partial() -> None:
    assert found(evidence([finished(1, "b.1")], [offer("b.0", "b.1")])) == {
        "partial batches": ["of the 2 jobs of b 1 are there"]
    }


def test_a_job_that_nobody_offered_is_unexpected() -> None:
    assert found(evidence([finished(1, "b.0")])) == {
        "unexpected": ["job 1 (b.0) was never offered"]
    }


def test_a_job_whose_offer_was_declined_is_unexpected() -> None:
    log = [offer("b.0"), Declined(at=1, batch="b")]
    assert found(evidence([finished(1, "b.0")], log)) == {
        "unexpected": ["job 1 (b.0) is there though its offer was declined"]
    }


def test_a_job_that_is_there_twice_is_unexpected() -> None:
    log = [offer("b.0"), offer("b.0", at=5), placed(2)]
    assert found(evidence([finished(1, "b.0"), finished(2, "b.0")], log)) == {
        "unexpected": ["b.0 is there 2 times"]
    }


# -- ends ----------------------------------------------------------------------------------


def test_a_job_that_was_finished_under_two_leases_is_double_accepted_and_undone() -> None:
    case = evidence([finished(1, "b.0", 8)], [offer("b.0")], run(7, 10, 1), run(8, 30, 3))
    assert found(case) == {
        "double-accepted": ["job 1 ended 2 times: actor-1, actor-2"],
        "undone": [
            "job 1: the end that actor-1 gave it is not what the store shows",
            "job 1 ran again at actor-2 after actor-1 had ended it",
        ],
    }


def test_a_lease_that_was_given_up_twice_is_double_accepted() -> None:
    log = [pulse(7, 9), granted(7, 10, 1), tried(7, 11), ruled(7, 12), tried(7, 13), ruled(7, 14)]
    assert found(evidence([finished(1, "b.0")], [offer("b.0")], log)) == {
        "double-accepted": ["job 1: actor-1 gave up one lease 2 times"]
    }


def test_a_job_that_was_released_and_finished_later_balances() -> None:
    log = [pulse(6, 9), granted(6, 10, 1), tried(6, 11), ruled(6, 12, State.QUEUED)]
    assert found(evidence([finished(1, "b.0")], [offer("b.0")], log, run(7, 20, 3))) == {}


def test_a_report_accepted_after_another_worker_had_the_job_is_stale() -> None:
    late = [pulse(6, 9), granted(6, 10, 1), tried(6, 250), ruled(6, 260, State.QUEUED)]
    other = [pulse(7, 200), granted(7, 200, 3)]
    case = evidence([finished(1, "b.0")], [offer("b.0")], late, other)
    assert found(case) == {"stale-accepted": ["job 1: actor-1 reported after actor-2 had it"]}


def test_a_late_report_that_was_refused_balances() -> None:
    late = [pulse(6, 9), granted(6, 10, 1), tried(6, 250), refused(6, 260)]
    case = evidence([finished(1, "b.0")], [offer("b.0")], late, run(7, 200, 3))
    assert found(case) == {}
    assert figures(case)["stale reports refused"] == 1


def test_a_finish_whose_answer_was_lost_may_have_happened_or_not() -> None:
    silent = [pulse(6, 9), granted(6, 10, 1), tried(6, 20)]
    done = evidence([finished(1, "b.0", 6)], [offer("b.0")], silent)
    not_done = evidence([finished(1, "b.0")], [offer("b.0")], silent, run(7, 150, 3))
    assert found(done) == found(not_done) == {}
    assert figures(done)["of these, ends the store shows"] == 1
    assert figures(not_done)["of these, ends the store shows"] == 0


def test_an_acknowledged_end_that_the_store_does_not_show_is_undone() -> None:
    case = evidence([finished(1, "b.0", 8)], [offer("b.0")], run(7, 10, 1))
    assert found(case) == {
        "undone": ["job 1: the end that actor-1 gave it is not what the store shows"]
    }


def test_a_job_that_ran_again_after_its_end_is_undone() -> None:
    again = [pulse(8, 200), granted(8, 200, 3)]
    case = evidence([finished(1, "b.0")], [offer("b.0")], run(7, 10, 1), again)
    assert found(case) == {"undone": ["job 1 ran again at actor-2 after actor-1 had ended it"]}


# -- runs ----------------------------------------------------------------------------------


def test_a_job_handed_out_again_while_its_holder_lives_is_stolen() -> None:
    holder = [pulse(6, 9), granted(6, 10, 1), pulse(6, 80)]
    case = evidence([finished(1, "b.0")], [offer("b.0")], holder, run(7, 179, 3))
    assert found(case) == {"stolen": ["job 1 was taken from actor-1, which was alive"]}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param([], id="its beats stopped"),
        pytest.param([pulse(6, 60), Farewell(at=70, session=6)], id="it gave its session up"),
        pytest.param([pulse(6, 60), tried(6, 70)], id="it may have reported"),
    ],
)
def test_a_job_handed_out_again_when_its_lease_may_be_over_is_not_stolen(
    end: list[Entry],
) -> None:
    holder = [pulse(6, 9), granted(6, 10, 1), *end]
    case = evidence([finished(1, "b.0")], [offer("b.0")], holder, run(7, 110, 3))
    assert found(case) == {}


def test_a_run_before_the_time_in_the_offer_is_early() -> None:
    case = evidence([finished(1, "b.0")], [offer("b.0", due_at=15)], run(7, 10, 1))
    assert found(case) == {"early": ["job 1 ran 5 microseconds early at actor-1"]}


def test_a_run_before_the_time_of_the_lease_is_early() -> None:
    lease = Lease(1, 1, 12, 10, "q", None, 1000)
    log = [pulse(7, 9), Granted(at=10, token=7, session=7, leases=[lease])]
    case = evidence([finished(1, "b.0")], [offer("b.0")], log)
    assert found(case) == {"early": ["job 1 ran 2 microseconds early at actor-1"]}


def test_a_run_before_the_time_to_which_it_was_put_off_is_early() -> None:
    log = [pulse(6, 9), granted(6, 10, 1), tried(6, 11), ruled(6, 12, State.QUEUED, due_at=50)]
    case = evidence([finished(1, "b.0")], [offer("b.0")], log, run(7, 30, 3))
    assert found(case) == {"early": ["job 1 ran 20 microseconds early at actor-2"]}


def two_runs(second_at: int, key: str | None = None) -> list[Entry]:
    """Job 1 from 10 to 20, and job 2 from `second_at` to 60."""
    first = [granted(7, 10, 1, key=key), tried(7, 20), ruled(7, 21)]
    other = [pulse(8, 9), granted(8, second_at, 1, job=2, key=key), tried(8, 60, job=2)]
    return [pulse(7, 9), *first, *other, ruled(8, 61, job=2)]


@pytest.mark.parametrize(
    ("settings", "key", "sentence"),
    [
        (QueueSettings(capacity=1), None, "q held 2000 units at 15"),
        (QueueSettings(key_capacity=1), "k", "key k of q held 2000 units at 15"),
        (QueueSettings(key_capacity=9, keys={"k": 1}), "k", "key k of q held 2000 units at 15"),
    ],
)
def test_more_at_a_time_than_fits_is_crowded(
    settings: QueueSettings, key: str | None, sentence: str
) -> None:
    jobs = [finished(1, "b.0"), finished(2, "b.1", 8)]
    views = [view(settings, FINISHED=2)]
    case = evidence(jobs, [offer("b.0", "b.1")], two_runs(15, key), views=views)
    assert found(case) == {"crowded": [sentence]}
    later = evidence(jobs, [offer("b.0", "b.1")], two_runs(20, key), views=views)
    assert found(later) == {}


def as_cut(entry: Entry) -> Entry:
    """The same, of a job of that task."""
    if not isinstance(entry, Granted):
        return entry
    leases = [msgspec.structs.replace(lease, task="cut") for lease in entry.leases]
    return msgspec.structs.replace(entry, leases=leases)


def test_more_than_a_task_or_the_queue_around_may_have_is_crowded() -> None:
    jobs = [finished(1, "b.0"), finished(2, "b.1", 8)]
    log = [offer("b.0", "b.1"), *map(as_cut, two_runs(15))]
    views = [view(QueueSettings(tasks={"cut": 1}, within="p"), FINISHED=2)]
    views.append(QueueView("p", QueueSettings(capacity=1), {}, 0))
    assert found(evidence(jobs, log, views=views)) == {
        "crowded": ["p held 2000 units at 15", "task cut of q held 2000 units at 15"]
    }


@pytest.mark.parametrize(
    ("rate", "gap"),
    [
        (Rate(1, 1000), 1000),
        (Rate(1, 1000, fixed=True), 990),
        (Rate(1, 1000, burst=1), 1000),
        (Rate(2, 2000, burst=1), 1000),
    ],
)
def test_more_starts_in_a_period_than_a_rate_allows_are_hurried(rate: Rate, gap: int) -> None:
    jobs = [finished(1, "b.0"), finished(2, "b.1", 8)]
    views = [view(QueueSettings(rate=rate), FINISHED=2)]
    for at, hurried in ((10 + gap - 1, True), (10 + gap, False)):
        log = [offer("b.0", "b.1"), *run(7, 10, 1), *run(8, at, 1, job=2)]
        sentences = found(evidence(jobs, log, views=views)).get("hurried", [])
        assert [sentence.partition(" until ")[2] for sentence in sentences] == (
            [f"{at}: {rate}"] if hurried else []
        )


def test_a_dead_worker_holds_its_place_until_its_session_ends() -> None:
    dead = [pulse(7, 9), granted(7, 10, 1)]
    views = [view(QueueSettings(capacity=1), FINISHED=2)]
    jobs = [finished(1, "b.0", 9), finished(2, "b.1", 8)]
    soon = evidence(jobs, [offer("b.0", "b.1")], dead, run(8, 108, 1, job=2), views=views)
    assert found(soon) == {"crowded": ["q held 2000 units at 108"]}
    late = evidence(jobs, [offer("b.0", "b.1")], dead, run(8, 109, 1, job=2), views=views)
    assert found(late) == {}


def test_more_than_fits_in_a_look_from_outside_is_crowded() -> None:
    views = [view(QueueSettings(capacity=2, key_capacity=1))]
    sample = Sample(at=5, queue="q", used=2500, keys={"k": 1500, "l": 1000})
    assert found(evidence([], [sample], views=views)) == {
        "crowded": [
            "q was seen with 2500 units in use",
            "key k of q was seen with 1500 units in use",
        ]
    }


def test_a_job_that_lost_more_workers_than_it_may_is_overspent() -> None:
    job = msgspec.structs.replace(finished(1, "b.0"), crashes=4)
    assert found(evidence([job], [offer("b.0")])) == {
        "overspent": ["job 1 lost 4 workers and may lose 3"]
    }


# -- the store in the end ------------------------------------------------------------------


def test_a_job_that_still_lives_is_stuck() -> None:
    assert found(evidence([queued(1, "b.0")], [offer("b.0")])) == {
        "stuck": ["job 1 of q is QUEUED, waits for None, due 0"]
    }


def test_counts_that_the_jobs_do_not_bear_out_are_drift() -> None:
    views = [view(FINISHED=2, FAILED=1, used=1000)]
    assert found(evidence([finished(1, "b.0")], [offer("b.0")], views=views)) == {
        "drift": [
            "q counts 2 FINISHED jobs and has 1",
            "q counts 1 FAILED jobs and has 0",
            "q counts 1000 units in use and has 0",
        ]
    }


def test_jobs_that_no_count_speaks_of_are_drift() -> None:
    assert found(evidence([finished(1, "b.0")], [offer("b.0")], views=[])) == {
        "drift": ["q is not on the books and has 1 FINISHED jobs"]
    }


# -- figures -------------------------------------------------------------------------------


def test_recovery_is_measured_from_the_kill_to_the_next_start() -> None:
    killed = [pulse(6, 9), granted(6, 10, 1)]
    deeds = [Deed(at=50, what="kill", actor="actor-0")]
    case = evidence([finished(1, "b.0")], killed, run(7, 150, 3), deeds)
    assert recovery_times(case) == [100]


def test_jobs_that_wait_for_room_do_not_count_for_recovery() -> None:
    killed = [pulse(6, 9), granted(6, 10, 1)]
    deeds = [Deed(at=50, what="kill", actor="actor-0")]
    views = [view(QueueSettings(capacity=1), FINISHED=1)]
    case = evidence([finished(1, "b.0")], killed, run(7, 150, 3), deeds, views=views)
    assert recovery_times(case) == []


@pytest.mark.parametrize(("share", "value"), [(0.5, 30), (0.99, 40), (1.0, 40)])
def test_a_quantile_is_one_of_the_values(share: float, value: int) -> None:
    assert quantile([10, 20, 30, 40], share) == value


def test_the_table_shows_figures_findings_and_the_first_sentences() -> None:
    case = evidence([], [offer("b.0"), placed(1)])
    lines = table("a title", case, violations(case)).splitlines()
    assert lines[1] == "a title"
    assert f"{'acknowledged':<34}{1:>10}" in lines
    assert lines[lines.index(f"{'lost':<34}{1:>10}") + 1] == (
        "    job 1 (b.0) was acknowledged and is gone"
    )


# -- journals ------------------------------------------------------------------------------


def test_a_journal_is_read_as_it_was_written_except_for_a_torn_last_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "actor")
    entries: list[Entry] = [offer("b.0"), placed(1), *run(7, 10, 1), refused(7, 30)]
    for entry in entries:
        journal.write(entry)
    journal.close()
    with (tmp_path / "actor.log").open("ab") as file:
        file.write(b'{"type":"Placed","at":1,"ba')
    assert read_journal(tmp_path, "actor") == entries
    assert read_journals(tmp_path) == {"actor": entries}


def test_only_named_offers_without_an_answer_are_offered_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "actor")
    named = [
        Offer(at=0, batch=batch, tags=[f"{batch}.0"], dues=[0], refs=batch != "nameless")
        for batch in ("answered", "nameless", "declined", "open")
    ]
    for entry in named:
        journal.write(entry)
    journal.write(Placed(at=1, batch="answered", ids=[1]))
    journal.write(Declined(at=1, batch="declined"))
    journal.close()
    assert unanswered_offers(tmp_path, "actor") == [named[3]]
    assert unanswered_offers(tmp_path, "one that never wrote") == []
