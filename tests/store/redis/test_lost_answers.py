"""Connections that break in the middle of a call: it is made again, and takes effect once."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.errors import StoreUnavailable
from stoker.kernel.change import Change
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished
from stoker.kernel.queue import QueueSettings
from stoker.store import Claim, Filter
from stoker.store.redis import RedisStore
from stoker.store.redis.library import library
from tests.servers.proxy import Proxy, proxy_before
from tests.servers.valkey import Server
from tests.store.conformance.acts import put, take

TRANSACTION, SETTLEMENT, PLACEMENT = (
    library().function(name).encode() for name in ("transact", "settle", "place")
)


@pytest.fixture
def desk(proxy: Proxy, prefix: str) -> Iterator[Desk]:
    desk = Desk(RedisStore(proxy.url(prefix)))
    yield desk
    desk.store.close()


def test_a_job_whose_acknowledgement_was_lost_is_there_once(desk: Desk, proxy: Proxy) -> None:
    proxy.lose_answers_to = TRANSACTION
    job_id = put(desk)
    assert proxy.cuts == 1
    assert [job.id for job in desk.store.find(Filter())] == [job_id]


def test_the_next_one_which_comes_alone_to_a_known_queue_is_there_once_too(
    desk: Desk, proxy: Proxy
) -> None:
    first = put(desk)
    proxy.lose_answers_to = PLACEMENT
    second = put(desk)
    assert proxy.cuts == 1
    assert [job.id for job in desk.store.find(Filter())] == [first, second]


def test_jobs_whose_grant_was_lost_are_granted_all_the_same(desk: Desk, proxy: Proxy) -> None:
    ids = [put(desk, rank=rank) for rank in (2, 1, 3)]
    proxy.lose_answers_to = SETTLEMENT
    jobs = desk.dispatch.claim(["q"], 2)
    assert proxy.cuts == 1
    assert [job.id for job in jobs] == [ids[1], ids[0]]
    assert {job.attempt for job in jobs} == {1}
    assert desk.store.get([job.id for job in jobs]) == {job.id: job for job in jobs}


def test_a_report_whose_receipt_was_lost_counts_and_is_no_lost_lease(
    desk: Desk, proxy: Proxy
) -> None:
    put(desk)
    job = take(desk)
    proxy.lose_answers_to = SETTLEMENT
    finished = desk.report.finish(job, b"1")
    assert proxy.cuts == 1
    assert desk.store.get([job.id])[job.id] == finished
    assert finished.state is State.FINISHED


def test_reports_and_claims_of_one_lost_answer_are_told_again(desk: Desk, proxy: Proxy) -> None:
    for _ in range(4):
        put(desk)
    held = desk.dispatch.claim(["q"], 2)
    proxy.lose_answers_to = SETTLEMENT
    request = desk.dispatch.request(["q"], 2)
    results, grants = desk.report.many([(job, Finished(b"1")) for job in held], [request])
    assert proxy.cuts == 1
    assert results == [None, None]
    (granted,) = grants
    assert granted is not None and len(granted) == 2
    assert {job.state for job in desk.store.get([job.id for job in held]).values()} == {
        State.FINISHED
    }


@pytest.mark.parametrize("beyond", [0, 1, 30, 400])
def test_a_call_that_did_not_get_through_is_made_again(
    desk: Desk, proxy: Proxy, beyond: int
) -> None:
    proxy.cut_questions_after = beyond
    job_id = put(desk, payload=b"x" * 1000)
    assert proxy.cuts == 1
    assert [job.id for job in desk.store.find(Filter())] == [job_id]


def test_idle_connections_that_broke_are_no_trouble(desk: Desk, proxy: Proxy) -> None:
    put(desk)
    proxy.cut_all()
    put(desk)
    assert len(desk.store.find(Filter())) == 2


def test_a_call_that_arrives_a_second_time_has_no_second_effect(
    desk: Desk, proxy: Proxy, server: Server
) -> None:
    """As when a server was halted: the first call was on its way in when it was made again."""
    first = put(desk)
    call = next(question for question in proxy.questions if TRANSACTION in question)
    assert not sent(server, call).startswith(b"-")
    second = put(desk)
    assert sent(server, call).startswith(b"-LATE")
    assert [job.id for job in desk.store.find(Filter())] == [first, second]


def test_a_job_that_arrives_a_second_time_is_there_once(
    desk: Desk, proxy: Proxy, server: Server
) -> None:
    first, second = put(desk), put(desk)
    *_, call = (question for question in proxy.questions if PLACEMENT in question)
    assert sent(server, call) == b":%d\r\n" % second
    third = put(desk)
    assert third == second + 1
    assert sent(server, call).startswith(b"-LATE")
    assert [job.id for job in desk.store.find(Filter())] == [first, second, third]


def test_a_job_that_arrives_a_second_time_is_there_once_even_if_its_queue_was_limited_meanwhile(
    desk: Desk, proxy: Proxy, server: Server, prefix: str
) -> None:
    first, second = put(desk), put(desk)
    *_, call = (question for question in proxy.questions if PLACEMENT in question)
    with closing(RedisStore(server.url(prefix))) as others:
        Desk(others).control.configure("q", QueueSettings(key_capacity=1))
    assert sent(server, call) == b":%d\r\n" % second
    assert [job.id for job in desk.store.find(Filter())] == [first, second]


def sent(server: Server, question: bytes) -> bytes:
    """What the server answers to words as they were sent once."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(server.socket))
        line.sendall(question)
        return line.recv(1 << 16)


def test_a_server_that_stays_away_is_told_about(
    tmp_path: Path, server: Server, prefix: str
) -> None:
    with proxy_before(server.socket, tmp_path) as proxy:
        store = RedisStore(proxy.url(prefix) + "&patience=0.2")
        proxy.close()
        proxy.socket.unlink()
        with pytest.raises(StoreUnavailable, match=r"did not answer for 0\.2 s.*is not known"):
            store.transact([Change(inserts=(Job("q"),))], [Claim(("q",), 1, 1)])
        store.close()
