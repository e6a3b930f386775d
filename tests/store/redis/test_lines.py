"""Connections by socket, by port and over TLS: answers as they come, and those that do not come."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from stoker.desk import Desk
from stoker.errors import StoreUnavailable
from stoker.kernel.job import Job
from stoker.store import Filter
from stoker.store.bell import Listener
from stoker.store.redis import RedisStore
from tests.servers.proxy import HOST, Proxy, proxy_before
from tests.servers.valkey import PATIENCE, Server
from tests.store.conformance.acts import put

LARGE = bytes(range(256)) * 16_384  # four times what is read at once
MORE_THAN_FITS_BETWEEN = bytes(32 << 20)


class Way:
    """A store that is reached through a proxy."""

    def __init__(self, proxy: Proxy, url: str) -> None:
        self.proxy = proxy
        self.url = url


@pytest.fixture(params=["socket", "port", "tls"])
def way(
    request: pytest.FixtureRequest, server: Server, prefix: str, tmp_path: Path
) -> Iterator[Way]:
    if request.param != "tls":
        with proxy_before(server.socket, tmp_path, by_port=request.param == "port") as proxy:
            yield Way(proxy, proxy.url(prefix))
        return
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with proxy_before(server.socket, tmp_path, by_port=True, tls=context) as proxy:
        yield Way(proxy, f"{proxy.url(prefix)}&ca={tmp_path / 'ca.pem'}")


@pytest.fixture
def desk(way: Way) -> Iterator[Desk]:
    desk = Desk(RedisStore(way.url))
    yield desk
    desk.store.close()


@pytest.fixture
def hasty_desk(way: Way) -> Iterator[Desk]:
    desk = Desk(RedisStore(f"{way.url}&patience=0.1"))
    yield desk
    desk.store.close()


def heard_by(ear: Listener, names: set[str]) -> set[str]:
    """What is heard until all these names are among it."""
    heard: set[str] = set()
    deadline = time.monotonic() + PATIENCE
    while not names <= heard and time.monotonic() < deadline:
        heard |= ear.wait(1)
    return heard


def test_answers_may_come_in_pieces(way: Way, desk: Desk) -> None:
    way.proxy.piece = 1
    ids = [put(desk), put(desk)]
    assert [job.id for job in desk.store.find(Filter())] == ids


def test_an_answer_may_be_larger_than_what_is_read_at_once(desk: Desk) -> None:
    job_id = put(desk, payload=LARGE)
    assert desk.store.get([job_id])[job_id].payload == LARGE


def test_connections_that_were_closed_while_nobody_used_them_are_made_anew(
    way: Way, desk: Desk
) -> None:
    put(desk)
    way.proxy.cut_all()
    put(desk)
    assert len(desk.store.find(Filter())) == 2


def test_a_server_that_does_not_answer_is_told_about(way: Way, hasty_desk: Desk) -> None:
    put(hasty_desk)
    way.proxy.silent = True
    with pytest.raises(StoreUnavailable, match=r"did not answer for 0\.1 s"):
        put(hasty_desk)


def test_a_server_that_takes_nothing_in_is_told_about(way: Way, hasty_desk: Desk) -> None:
    way.proxy.deaf = True
    with pytest.raises(StoreUnavailable, match="takes nothing in"):
        hasty_desk.intake.enqueue(Job("q", payload=MORE_THAN_FITS_BETWEEN))


def test_a_ring_that_comes_in_pieces_is_heard(way: Way, desk: Desk) -> None:
    ear = desk.store.bell.listen()
    way.proxy.piece = 1
    put(desk, queue="mail")
    assert heard_by(ear, {"mail"}) == {"mail"}
    assert ear.wait(0) == set()
    ear.close()


def test_no_ring_among_many_is_missed(desk: Desk) -> None:
    ear = desk.store.bell.listen()
    queues = {f"queue {number}" for number in range(100)}
    for queue in sorted(queues):
        put(desk, queue=queue)
    assert heard_by(ear, queues) == queues
    ear.close()


def test_a_listener_whose_connection_was_cut_hears_again(way: Way, desk: Desk) -> None:
    ear = desk.store.bell.listen()
    put(desk, queue="mail")
    way.proxy.cut_all()
    assert heard_by(ear, {"mail"}) == {"mail"}
    put(desk, queue="news")
    assert "news" in heard_by(ear, {"news"})
    ear.close()
