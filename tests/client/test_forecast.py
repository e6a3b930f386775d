"""Explain tells the very moment at which a job starts, whatever keeps it till then."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from stoker import Desk, Job, State
from stoker.desk import forecast
from stoker.desk.blocker import Reason
from stoker.desk.explain import Explanation, explain
from stoker.kernel.hours import parse_maintenance
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.rate import Rate, parse_rate
from stoker.kernel.window import Windows, parse_windows
from stoker.store.memory import MemoryStore
from tests.engines import START, VirtualClock

HOUR = 3_600_000_000
MINUTE = HOUR // 60
HORIZON = 21 * 24 * HOUR
"""What does not start in so long does not start at all."""
LIVES = 40
WAITS = (
    *(Reason.NOT_DUE, Reason.WINDOW_CLOSED, Reason.QUEUE_CLOSED, Reason.MAINTENANCE),
    *(Reason.TASK_RATE, Reason.KEY_RATE, Reason.QUEUE_RATE, Reason.OUTER_RATE),
)


def settings_by(dice: random.Random) -> dict[str, Any]:
    """Hours and rates of a queue, some of them."""
    told: dict[str, Any] = {}
    if dice.random() < 0.4:
        told["windows"] = windows_by(dice)
    if dice.random() < 0.3:
        told["maintenance"] = (parse_maintenance("2023-11-14 22:40 to 2023-11-15 00:10, drain 5m"),)
    if dice.random() < 0.5:
        told["rate"] = rate_by(dice)
    return told


def rate_by(dice: random.Random) -> Rate:
    amount, period = dice.choice([1, 2, 3, 5]), dice.choice(["10m", "1h", "7m"])
    return parse_rate(f"{amount} per {period}{dice.choice(['', ', fixed', ', burst 2'])}")


def windows_by(dice: random.Random) -> Windows:
    start = dice.randrange(24)
    return parse_windows(f"{start:02}:00-{(start + dice.choice([1, 3, 9])) % 24:02}:30")


def job_by(dice: random.Random) -> Job:
    policy = Policy(windows=windows_by(dice)) if dice.random() < 0.2 else Policy()
    return Job(
        "mail",
        dice.choice("st"),
        key=dice.choice(["k", "l", None]),
        rank=dice.choice([0, 0, 0, 1]),
        weight=dice.choice([1000, 1000, 1000, 500, 0]),
        due_at=START + dice.choice([0, 0, -1, 1, 2, 9, 30]) * 20 * MINUTE,
        policy=policy,
    )


def a_life(dice: random.Random, desk: Desk) -> None:
    """Settings of a queue, perhaps within another, and some jobs, of which some have started."""
    told = settings_by(dice)
    if dice.random() < 0.4:
        told["key_rate"] = rate_by(dice)
    if dice.random() < 0.4:
        told["task_rates"] = {"t": rate_by(dice)}
    if dice.random() < 0.3:
        told["within"] = "world"
        desk.control.configure("world", QueueSettings(**settings_by(dice)))
    if dice.random() < 0.2:
        told["ageing"] = 30 * MINUTE
    elif dice.random() < 0.2:
        told["order"] = Order.TIME_RANK
    desk.control.configure("mail", QueueSettings(**told))
    for _ in range(dice.randrange(1, 8)):
        desk.intake.enqueue(job_by(dice))
    desk.dispatch.claim(["mail"], 1000)
    for _ in range(dice.randrange(1, 12)):
        desk.intake.enqueue(job_by(dice))


def moments(desk: Desk, clock: VirtualClock, until: int) -> Iterator[None]:
    """Each at which there may be something to claim."""
    yield
    while (later := desk.dispatch.next_due(["mail"])) is not None and later <= until:
        assert later > clock.now
        clock.now = later
        yield


def look_back(seed: int) -> tuple[dict[int, Explanation], dict[int, int]]:
    """What was told of the jobs that were queued, and when they started in three weeks."""
    dice, clock = random.Random(seed), VirtualClock()
    desk = Desk(MemoryStore(clock), dice=lambda: 0.0)
    desk.dispatch.open_session("ann", ttl=10**16)
    a_life(dice, desk)
    told = {n: explain(desk.store, n) for n in desk.store.get(range(1, 30))}
    started: dict[int, int] = {}
    for _ in moments(desk, clock, START + HORIZON):
        for job in desk.dispatch.claim(["mail"], 1000):
            started[job.id] = clock.now
            desk.report.finish(job)
    return {n: each for n, each in told.items() if each.job.state is State.QUEUED}, started


def test_jobs_start_when_it_was_told_that_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_YEAR", HORIZON)
    reasons: Counter[Reason] = Counter()
    for seed in range(LIVES):
        told, started = look_back(seed)
        assert {n: told[n].starts_at for n in told} == {n: started.get(n) for n in told}, seed
        for one in told.values():
            reasons.update(each.reason for each in one.blockers)
            check_blockers(one)
    assert not {*WAITS} - reasons.keys()  # else there would have been nothing to see


def check_blockers(told: Explanation) -> None:
    """What ends by itself has ended when the job starts."""
    reasons = {each.reason for each in told.blockers}
    assert told.runs_at == told.starts_at or Reason.IN_LINE in reasons
    ends = [each.until for each in told.blockers if each.until is not None]
    assert told.starts_at is None or max(ends, default=START) <= told.starts_at
