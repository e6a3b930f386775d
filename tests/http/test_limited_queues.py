"""Claims over HTTP, also of Jobber's types, get what limits and rates let start."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from tests.engines import VirtualClock
from tests.http.client import Api


@pytest.mark.parametrize("queue", ["q", "job_queue_q"])
def test_a_claim_gets_no_more_than_there_are_places_for_its_key_and_its_queue(
    api: Api, desk: Desk, queue: str
) -> None:
    desk.control.configure(queue, QueueSettings(capacity=2, key_capacity=1))
    ids = [api.put(queue, key=key) for key in ("ann", "ann", "bob", "eve")]
    taken = api.take(queue, limit=9)
    assert [job["id"] for job in taken] == [ids[0], ids[2]]
    assert api.take(queue, limit=9) == []
    api.say(taken[0], "finish")
    assert [job["id"] for job in api.take(queue, limit=9)] == [ids[1]]


def test_jobs_of_jobber_keep_to_the_rate_of_their_type(
    api: Api, desk: Desk, clock: VirtualClock
) -> None:
    desk.control.configure("job_queue_t", QueueSettings(rate=parse_rate("1 per 4s, burst 2")))
    ids = [api.post("/jobber/queue", {"type": "t"}).json["job-id"] for _ in range(4)]
    assert [job["ref"] for job in api.take("job_queue_t", limit=9)] == ids[:2]
    assert api.take("job_queue_t", limit=9) == []
    clock.pass_(4)
    assert [job["ref"] for job in api.take("job_queue_t", limit=9)] == ids[2:3]
