"""Reports for several partitions are under way at the same time, and arrive whatever breaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State, partition_of
from stoker.kernel.outcome import Finished
from stoker.store.redis import RedisStore
from stoker.store.redis.connection import Line
from stoker.store.redis.library import library
from tests.servers.proxy import Proxy
from tests.store.conformance.acts import put

PARTITIONS = 3
SETTLEMENT = library().function("settle").encode()


@pytest.fixture
def desk(proxy: Proxy, prefix: str) -> Iterator[Desk]:
    desk = Desk(RedisStore(f"{proxy.url(prefix)}&partitions={PARTITIONS}"))
    yield desk
    desk.store.close()


@pytest.fixture
def held(desk: Desk) -> list[Job]:
    """Jobs of all partitions."""
    for _ in range(4 * PARTITIONS):
        put(desk)
    jobs = desk.dispatch.claim(["q"], 4 * PARTITIONS - 2)
    assert len({partition_of(job.id) for job in jobs}) == PARTITIONS
    return jobs


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent and read, in this order."""
    heard: list[str] = []
    send, read = Line.send, Line.read

    def noted_send(line: Line, command: bytes) -> None:
        heard.append("sent")
        send(line, command)

    def noted_read(line: Line) -> Any:
        heard.append("read")
        return read(line)

    monkeypatch.setattr(Line, "send", noted_send)
    monkeypatch.setattr(Line, "read", noted_read)
    return heard


def states(desk: Desk, jobs: list[Job]) -> set[State]:
    return {job.state for job in desk.store.get([job.id for job in jobs]).values()}


def report_and_see(desk: Desk, held: list[Job]) -> None:
    results, _ = desk.report.many([(job, Finished(b"1")) for job in held])
    assert results == [None] * len(held)
    assert states(desk, held) == {State.FINISHED}


def test_all_servers_have_something_to_do_at_the_same_time(
    desk: Desk, held: list[Job], words: list[str]
) -> None:
    report_and_see(desk, held)
    # What is seen afterwards is asked for behind all this.
    assert words[: 2 * PARTITIONS] == ["sent"] * PARTITIONS + ["read"] * PARTITIONS


def test_whoever_wants_few_jobs_looks_for_them_where_it_reports(
    desk: Desk, held: list[Job], words: list[str]
) -> None:
    request = desk.dispatch.request(["nothing"], 1)
    words.clear()
    desk.report.many([(job, Finished()) for job in held], [request])
    assert words == ["sent", "read"] * PARTITIONS


def test_whoever_wants_many_reports_elsewhere_meanwhile_and_goes_on_if_there_are_too_few(
    desk: Desk, held: list[Job], words: list[str]
) -> None:
    request = desk.dispatch.request(["q"], 500)
    words.clear()
    _, (granted,) = desk.report.many([(job, Finished()) for job in held], [request])
    assert words[:PARTITIONS] == ["sent"] * PARTITIONS
    assert granted is not None and len(granted) == 4 * PARTITIONS - len(held)
    assert states(desk, held) == {State.FINISHED}


def test_a_report_whose_answer_was_lost_is_made_again(
    desk: Desk, proxy: Proxy, held: list[Job]
) -> None:
    proxy.lose_answers_to = SETTLEMENT
    report_and_see(desk, held)
    assert proxy.cuts == 1


@pytest.mark.parametrize("beyond", [0, 30])
def test_a_report_that_did_not_get_through_is_made_again(
    desk: Desk, proxy: Proxy, held: list[Job], beyond: int
) -> None:
    proxy.cut_questions_after = beyond
    report_and_see(desk, held)
    assert proxy.cuts == 1


def test_connections_that_broke_meanwhile_are_made_anew(
    desk: Desk, proxy: Proxy, held: list[Job]
) -> None:
    proxy.cut_all()
    report_and_see(desk, held)
