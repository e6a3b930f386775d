"""What came of a try: a value first, a write after."""

from __future__ import annotations

import msgspec

from stoker.kernel import rules
from stoker.kernel.answers import NOTHING_EARLY, Early
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.kernel.retry import Failure, Verdict, decide


class Finished(msgspec.Struct, frozen=True, tag=True):
    """The work is done. `payload` seeds the next run; `repeat=False` makes this the last."""

    result: bytes | None = None
    payload: bytes | None = None
    repeat: bool = True


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The try was spoilt. Without a verdict the job's own retry policy gives it."""

    failure: Failure
    verdict: Verdict | None = None
    repeat: bool = True


class Released(msgspec.Struct, frozen=True, tag=True):
    """Given back unfinished; no try is counted. `due_at` puts it off."""

    due_at: int | None = None
    payload: bytes | None = None
    error: str | None = None
    """Why, if there is something to tell."""


class Awaits(msgspec.Struct, frozen=True, tag=True):
    """The rest depends on an answer from outside, to be matched by its key."""

    key: str
    timeout: int | None = None
    meta: str | None = None
    """What is to be remembered of the question, if anything."""


class Crashed(msgspec.Struct, frozen=True, tag=True):
    """Whoever ran it died on it: as good as a lost lease, only known at once."""

    evidence: str


Outcome = Crashed | Finished | Failed | Released | Awaits


def change_for(
    job: Job,
    outcome: Outcome,
    *,
    now: int,
    dice: float,
    settings: QueueSettings,
    early: Early = NOTHING_EARLY,
) -> Change:
    """The Change an outcome deserves. `early` is what came before it was waited for."""
    if isinstance(outcome, Finished):
        return rules.finish(
            job,
            now=now,
            result=outcome.result,
            payload=outcome.payload,
            settings=settings,
            repeat=outcome.repeat,
        )
    if isinstance(outcome, Released):
        return rules.release(
            job,
            now=now,
            due_at=outcome.due_at,
            payload=outcome.payload,
            error=outcome.error,
            settings=settings,
        )
    if isinstance(outcome, Awaits):
        return rules.wait(
            job,
            now=now,
            key=outcome.key,
            timeout=outcome.timeout,
            meta=outcome.meta,
            early=early,
            settings=settings,
        )
    if isinstance(outcome, Crashed):
        return rules.lose(job, now=now, dice=dice, evidence=outcome.evidence, settings=settings)
    failure = outcome.failure
    verdict = outcome.verdict or decide(
        job.policy.retry, failures=job.failures, failure=failure, now=now, dice=dice
    )
    return rules.fail(
        job, now=now, failure=failure, verdict=verdict, settings=settings, repeat=outcome.repeat
    )
