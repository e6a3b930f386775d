"""Outcomes: each is turned into the Change of its rule."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.kernel import rules
from stoker.kernel.answers import Early
from stoker.kernel.change import Change, Note
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Awaits, Crashed, Failed, Finished, Outcome, Released, change_for
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.retry import Again, Ask, GiveUp
from stoker.kernel.retry_forms import custom, exponential, fixed
from tests.kernel.samples import BROKEN, NOW, SECOND, job_in

SETTINGS = QueueSettings(retention=Retention(7, 8, 9))


def change(job: Job, outcome: Outcome, **more: Any) -> Change:
    return change_for(job, outcome, now=NOW, dice=0.0, settings=SETTINGS, **more)


@pytest.mark.parametrize(
    "outcome",
    [Finished(), Finished(b"r"), Finished(b"r", b"p"), Finished(repeat=False)],
    ids=["plain", "result", "payload", "last"],
)
def test_a_finished_try(outcome: Finished) -> None:
    job = job_in(State.RUNNING, policy=Policy(repeat="FINISHED, +1 HOUR"))
    assert change(job, outcome) == rules.finish(
        job,
        now=NOW,
        result=outcome.result,
        payload=outcome.payload,
        repeat=outcome.repeat,
        settings=SETTINGS,
    )


def test_a_released_try() -> None:
    job = job_in(State.RUNNING, cancel_requested=True)
    expected = rules.release(job, now=NOW, due_at=5, payload=b"p", settings=SETTINGS)
    assert change(job, Released(5, b"p")) == expected
    kept = job_in(State.RUNNING)
    assert change(kept, Released(error="why")) == rules.release(kept, now=NOW, error="why")


@pytest.mark.parametrize("early", [Early(), Early(Note("reply:k", b"early", revision=4))])
def test_a_try_that_waits_for_an_answer(early: Early) -> None:
    job = job_in(State.RUNNING)
    expected = rules.wait(job, now=NOW, key="k", timeout=5, early=early, settings=SETTINGS)
    assert change(job, Awaits("k", 5), early=early) == expected


def test_a_try_that_ended_in_a_crash() -> None:
    job = job_in(State.RUNNING, policy=Policy(on_lost=OnLost.FAIL))
    expected = rules.lose(job, now=NOW, dice=0.0, evidence="code 139", settings=SETTINGS)
    assert change(job, Crashed("code 139")) == expected


@pytest.mark.parametrize("verdict", [Again(5, b"p", 1), GiveUp("enough"), Ask("h")])
@pytest.mark.parametrize("repeat", [True, False])
def test_a_failed_try_with_a_verdict(verdict: Again | GiveUp | Ask, repeat: bool) -> None:
    job = job_in(State.RUNNING, policy=Policy(repeat="FINISHED, +1 HOUR", retry=fixed(1)))
    expected = rules.fail(
        job, now=NOW, failure=BROKEN, verdict=verdict, repeat=repeat, settings=SETTINGS
    )
    assert change(job, Failed(BROKEN, verdict, repeat)) == expected


@pytest.mark.parametrize(
    ("policy", "attempt", "crashes", "verdict"),
    [
        (Policy(), 1, 0, GiveUp()),
        (Policy(retry=fixed("3s", limit=2)), 2, 0, Again(NOW + 3 * SECOND)),
        (Policy(retry=fixed("3s", limit=2)), 3, 0, GiveUp()),
        (Policy(retry=fixed("3s", limit=2)), 3, 1, Again(NOW + 3 * SECOND)),
        (Policy(retry=fixed("3s", limit=2), on_lost=OnLost.RETRY), 3, 1, GiveUp()),
        (Policy(retry=custom("h")), 1, 0, Ask("h")),
        (Policy(retry=exponential(9)), 3, 0, Again(NOW + 4 * SECOND)),
    ],
)
def test_a_failed_try_without_a_verdict_is_judged_by_its_policy(
    policy: Policy, attempt: int, crashes: int, verdict: Again | GiveUp | Ask
) -> None:
    job = job_in(State.RUNNING, policy=policy, attempt=attempt, crashes=crashes)
    expected = rules.fail(job, now=NOW, failure=BROKEN, verdict=verdict, settings=SETTINGS)
    assert change(job, Failed(BROKEN)) == expected
