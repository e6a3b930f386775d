"""Numbers at the ends of what may be said, and beyond: every engine reckons with the former and
never sees the latter."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk
from stoker.errors import BadInput, NotFound
from stoker.kernel.amount import MOST
from stoker.kernel.duration import LONGEST
from stoker.kernel.facts import HEAVIEST
from stoker.kernel.outcome import Awaits
from stoker.kernel.policy import MOST_CRASHES, Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.ranges import HIGHEST_RANK
from stoker.kernel.rate import Rate
from tests.engines import VirtualClock
from tests.store.conformance.acts import DAY, put, running, seen, take_all

YEAR = 366 * DAY
FAR = 100 * YEAR
BEYOND: list[Any] = [-1, 2**63, 10**30, 1e300, float("inf"), float("nan"), True]


@pytest.mark.parametrize(
    "settings",
    [
        {"capacity": MOST, "key_capacity": MOST},
        {"capacity": MOST, "shares": {"ann": 100}, "lend": True},
        {"keys": {"ann": MOST}, "tasks": {"mail": MOST}},
        {"fair": True, "turns": {"ann": MOST, "bob": 0.001}},
        {"rate": Rate(MOST, 1000)},
        {"rate": Rate(MOST, YEAR, fixed=True)},
        {"rate": Rate(1, YEAR, burst=100)},
        {"key_rate": Rate(1, YEAR, burst=100), "task_rates": {"mail": Rate(MOST, 1000)}},
        {"retention": Retention(LONGEST, LONGEST, LONGEST)},
    ],
    ids=str,
)
def test_a_queue_works_with_the_greatest_numbers_that_it_can_be_told(
    desk: Desk, settings: dict[str, Any]
) -> None:
    desk.control.configure("q", QueueSettings(**settings))
    ids = [put(desk, name="mail", key=key) for key in ("ann", "bob", "ann")]
    assert sorted(take_all(desk)) == ids
    for job_id in ids:
        desk.report.finish(seen(desk, job_id))
    assert desk.store.survey(["q"])[0].settings == QueueSettings(**settings)


def test_jobs_of_the_greatest_weight_take_turns(desk: Desk) -> None:
    settings = QueueSettings(capacity=MOST, key_capacity=MOST, fair=True, turns={"ann": 0.001})
    desk.control.configure("q", settings)
    ids = [put(desk, key=key, weight=HEAVIEST) for key in ("ann", "ann", "bob")]
    for job_id in (ids[0], ids[2], ids[1]):
        assert take_all(desk) == [job_id]
        desk.report.finish(seen(desk, job_id))


def test_ranks_and_ageing_of_any_size_order_jobs(desk: Desk) -> None:
    desk.control.configure("q", QueueSettings(ageing=LONGEST))
    ids = [put(desk, rank=rank) for rank in (HIGHEST_RANK, 0, -HIGHEST_RANK)]
    assert take_all(desk) == ids[::-1]


@pytest.mark.parametrize("where", ["rate", "key_rate"])
def test_a_job_too_heavy_for_any_burst_shuts_a_slow_rate_for_a_hundred_years(
    desk: Desk, clock: VirtualClock, where: str
) -> None:
    desk.control.adjust("q", **{where: Rate(0.001, YEAR, burst=0.001)})
    first, second = put(desk, key="ann", weight=HEAVIEST), put(desk, key="ann", weight=1)
    assert take_all(desk) == [first]
    clock.now += FAR - 1
    assert take_all(desk) == []
    clock.now += 1
    assert take_all(desk) == [second]


def test_the_longest_times_of_a_job_lie_in_the_calendar(desk: Desk, clock: VirtualClock) -> None:
    policy = Policy(timeout=LONGEST, crash_limit=MOST_CRASHES, retention=Retention(LONGEST))
    job = running(desk, policy=policy)
    assert job.until == clock.now + LONGEST
    desk.report.touch(job, visibility=LONGEST)
    desk.report.finish(job)
    assert seen(desk, job.id).until == clock.now + LONGEST


def test_what_is_beyond_leaves_a_queue_as_it_was(desk: Desk) -> None:
    before = desk.control.adjust("q", capacity=5, fair=True)
    for beyond in (0, *BEYOND):
        for name in ("capacity", "key_capacity", "ageing"):
            with pytest.raises(BadInput, match=name):
                desk.control.adjust("q", fair=False, **{name: beyond})
    assert desk.store.survey(["q"])[0].settings == before


def test_what_is_beyond_is_no_word_of_a_worker(desk: Desk) -> None:
    job = running(desk)
    for beyond in BEYOND:
        with pytest.raises(BadInput, match="the limit of a claim must be a whole number from 1 to"):
            desk.dispatch.claim(["q"], beyond)
        with pytest.raises(BadInput, match="visibility must be from 0 to 1,000 years"):
            desk.dispatch.claim(["q"], visibility=beyond)
        with pytest.raises(BadInput, match="ttl must be from 0 to 1,000 years"):
            desk.dispatch.open_session(ttl=beyond)
        with pytest.raises(BadInput, match="visibility must be from 0 to 1,000 years"):
            desk.report.touch(job, visibility=beyond)
        with pytest.raises(BadInput, match="the timeout of a wait must be from 0 to 1,000 years"):
            desk.report.wait(job, Awaits("answer", beyond))
    assert seen(desk, job.id) == job


@pytest.mark.parametrize("job_id", [0, -1, 2**63 - 1, 2**63, 10**30, -(10**30)])
def test_a_number_that_no_job_can_have_is_that_of_none(desk: Desk, job_id: int) -> None:
    here = put(desk)
    assert list(desk.store.get([job_id, here])) == [here]
    with pytest.raises(NotFound, match=f"there is no job {job_id}"):
        desk.control.cancel(job_id)


def test_a_moment_beyond_the_calendar_is_none_to_come_back_at(desk: Desk) -> None:
    job = running(desk)
    with pytest.raises(BadInput, match="lies outside the years 2 to 9998"):
        desk.report.release(job, due_at=2**62)
    assert seen(desk, job.id) == job
