"""Limits and rates hold for Bedrock's jobs as for all others, and whoever waits hears of room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store import Filter
from stoker.store.open import open_store
from tests.bedrock.conftest import Serve
from tests.bedrock.teller import Teller
from tests.bedrock.wire import written
from tests.engines import VirtualClock

NONE = "404 No job found"


def limit(desk: Desk, queue: str, **settings: Any) -> None:
    desk.control.configure(queue, QueueSettings(**settings))


def got(teller: Teller, name: str = "foo") -> int | None:
    """The job that is handed out, if any is."""
    status, job = teller("GetJob", name=name)
    return None if status == NONE else int(job["jobID"])


@pytest.mark.parametrize("verb", ["FinishJob", "RetryJob", "FailJob"])
def test_a_name_with_so_many_places_gives_out_no_more_until_one_is_given_back(
    teller: Teller, desk: Desk, verb: str
) -> None:
    limit(desk, "bedrock:foo", capacity=2)
    ids = [teller.create() for _ in range(4)]
    first = [job["jobID"] for job in teller.ok("GetJobs", name="foo", numResults=9)["jobs"]]
    assert first == ids[:2]
    assert got(teller) is None
    later = {"delay": 60} if verb == "RetryJob" else {}
    teller.ok(verb, jobID=ids[0], **later)
    assert (got(teller), got(teller)) == (ids[2], None)


def test_several_names_share_the_places_of_the_queue_that_they_are_within(
    teller: Teller, desk: Desk
) -> None:
    limit(desk, "bedrock", capacity=1)
    for name in ("foo", "bar"):
        limit(desk, f"bedrock:{name}", within="bedrock")
    ids = [teller.create(name) for name in ("foo", "bar", "free")]
    assert got(teller, "foo,bar") == ids[0]
    assert got(teller, "foo,bar") is None
    assert got(teller, "*") == ids[2]
    teller.ok("FinishJob", jobID=ids[0])
    assert got(teller, "*") == ids[1]


def test_a_rate_holds_and_a_requeued_job_counts_again(
    teller: Teller, desk: Desk, clock: VirtualClock
) -> None:
    limit(desk, "bedrock:foo", rate=parse_rate("2 per minute, burst 2"))
    ids = [teller.create() for _ in range(3)]
    assert [got(teller) for _ in range(3)] == [*ids[:2], None]
    teller.ok("RequeueJobs", jobIDs=ids[0])
    clock.pass_(30)
    assert [got(teller), got(teller)] == [ids[0], None]


def test_a_job_whose_time_is_up_gives_its_place_back(
    teller: Teller, desk: Desk, clock: VirtualClock
) -> None:
    limit(desk, "bedrock:foo", capacity=1)
    ids = [teller.create(retryAfter="+1 MINUTE"), teller.create()]
    assert [got(teller), got(teller)] == [ids[0], None]
    clock.pass_(61)
    assert [got(teller), got(teller)] == [ids[1], None]
    teller.ok("FinishJob", jobID=ids[1])
    assert got(teller) == ids[0]


def test_whoever_waits_is_given_the_job_as_soon_as_there_is_room_and_the_rate_opens(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve()
    desk = Desk(open_store(f"sqlite:///{tmp_path / 'jobs.db'}?sync=normal"))
    limit(desk, "bedrock:foo", capacity=1)
    limit(desk, "bedrock:bar", rate=parse_rate("1 per 200ms, burst 1"))
    wire, waiting = server.connect(), server.connect()
    jobs = [wire.ask("CreateJob", name=name).json["jobID"] for name in ("foo", "foo", "bar", "bar")]
    assert [wire.ask("GetJob", name=name).json["jobID"] for name in ("foo", "bar")] == jobs[::2]
    waiting.send(written("GetJob", name="bar", Connection="wait"))
    assert waiting.answer().json["jobID"] == jobs[3]
    first, second = (job.started_at or 0 for job in desk.store.find(Filter(queue="bedrock:bar")))
    assert second - first >= 200_000
    waiting.send(written("GetJob", name="foo", Connection="wait"))
    wire.ask("FinishJob", jobID=jobs[0])
    assert waiting.answer().json["jobID"] == jobs[1]
    desk.store.close()
