"""The core of all bridges, over NATS: keys, forms, trouble, new jobs, and a good end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import nats
import pytest

from stoker.bridges import Bridge, Message
from stoker.desk import Desk
from stoker.errors import StoreUnavailable
from stoker.kernel.job import State
from stoker.store import Filter
from stoker.store.memory import MemoryStore
from tests.bridges.carrying import answer_of, asking, carried, until
from tests.bridges.wires import JetStream
from tests.servers.nats import NatsServer


@pytest.fixture
def desk() -> Desk:
    return Desk(MemoryStore())


def sent(server: NatsServer, subject: str, *bodies: bytes, **headers: str) -> Callable[[], None]:
    """Somebody who sends messages, all to one subject, when a bridge listens."""

    async def send() -> None:
        async with await nats.connect(server.url) as client:
            for body in bodies:
                await client.publish(subject, body, headers=headers or None)

    return lambda: asyncio.run(send())


async def listening(bridge: Bridge) -> None:
    await until(lambda: bridge.connected)


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "stoker.bridges")
    return caplog


@pytest.mark.parametrize(
    ("options", "body", "headers", "key"),
    [
        ("key=order.id", b'{"order": {"id": 4711}}', {}, "4711"),
        ("key=orders.1.id", b'{"orders": [{"id": "a"}, {"id": "b"}]}', {}, "b"),
        ("header=X-Order", b"1", {"X-Order": "4711"}, "4711"),
        ("", b"1", {}, "leaf"),
        ("header=topic", b"1", {}, "keys.leaf"),
        ("prefix=hipq.charge:", b"1", {}, "hipq.charge:leaf"),
    ],
)
def test_the_key_is_where_the_url_says(
    nats_server: NatsServer,
    desk: Desk,
    options: str,
    body: bytes,
    headers: dict[str, str],
    key: str,
) -> None:
    job = asking(desk, key)
    send = sent(nats_server, "keys.leaf", body, **headers)

    async def answered(bridge: Bridge) -> None:
        await listening(bridge)
        await asyncio.to_thread(send)
        await until(lambda: answer_of(desk, job))

    carried(desk, f"{nats_server.url}/keys.*?{options}", answered)
    assert answer_of(desk, job) == body


def test_a_text_becomes_a_json_string(nats_server: NatsServer, desk: Desk) -> None:
    job = asking(desk, "text")

    async def answered(bridge: Bridge) -> None:
        await listening(bridge)
        await asyncio.to_thread(sent(nats_server, "text", b"\xff", 'say "ä"'.encode()))
        await until(lambda: answer_of(desk, job))
        assert bridge.counts == {"useless": 1, "delivered": 1}

    carried(desk, f"{nats_server.url}/text?form=text", answered)
    assert answer_of(desk, job) == '"say \\"ä\\""'.encode()


def test_messages_without_a_key_are_told_of_and_block_nobody(
    nats_server: NatsServer, desk: Desk, told: pytest.LogCaptureFixture
) -> None:
    job = asking(desk, "7")
    useless = [b"[]", b'{"id": null}', b'{"id": true}', b'{"id": ""}', b'{"id": {}}', b"", b"\xff"]

    async def answered(bridge: Bridge) -> None:
        await listening(bridge)
        await asyncio.to_thread(sent(nats_server, "ids", *useless, b'{"id": 7}'))
        await until(lambda: answer_of(desk, job))
        assert bridge.counts == {"useless": len(useless), "delivered": 1}

    carried(desk, f"{nats_server.url}/ids?key=id", answered)
    assert "a message is of no use: its body has no text and no whole number at 'id'" in told.text
    assert "is closed: 1 delivered, 7 useless" in told.text


def test_answers_that_nobody_waits_for_are_reported(
    nats_server: NatsServer, desk: Desk, told: pytest.LogCaptureFixture
) -> None:
    async def ignored(bridge: Bridge) -> None:
        await listening(bridge)
        await asyncio.to_thread(sent(nats_server, "nobody", b"1", b"2"))
        await until(lambda: bridge.counts == {"kept": 1, "repeated": 1})

    carried(desk, f"{nats_server.url}/nobody", ignored)
    assert "nobody: kept: '1'" in told.text
    assert "nobody: repeated: '2'" in told.text


def test_an_answer_that_comes_too_late_is_reported(
    nats_server: NatsServer, desk: Desk, told: pytest.LogCaptureFixture
) -> None:
    desk.control.cancel(asking(desk, "late"))

    async def ignored(bridge: Bridge) -> None:
        await listening(bridge)
        await asyncio.to_thread(sent(nats_server, "late", b"1"))
        await until(lambda: bridge.counts == {"late": 1})

    carried(desk, f"{nats_server.url}/late", ignored)
    assert "late: late: '1'" in told.text


def test_while_the_store_is_in_trouble_the_message_is_held_on_to(
    nats_server: NatsServer, desk: Desk, told: pytest.LogCaptureFixture
) -> None:
    job = asking(desk, "trouble")

    async def answered(bridge: Bridge) -> None:
        errand, failures = bridge._errand, iter([StoreUnavailable("gone for lunch")])

        def troubled(message: Message) -> str:
            for failure in failures:
                raise failure
            return errand(message)

        bridge._errand = troubled
        await listening(bridge)
        await asyncio.to_thread(sent(nats_server, "trouble", b"1"))
        await until(lambda: answer_of(desk, job))

    carried(desk, f"{nats_server.url}/trouble", answered)
    assert "gone for lunch; again in 0.1 s" in told.text


def test_messages_become_jobs_each_once(nats_server: NatsServer, desk: Desk) -> None:
    wire = JetStream(nats_server)
    url = f"{wire.url}&task=ship&into=orders"
    wire.send("any", b'{"order": 7}')

    async def enqueued(bridge: Bridge) -> None:
        done, bridge._broker.done = bridge._broker.done, _lost  # type: ignore[method-assign]
        await until(lambda: bridge.counts["repeated"] == 1)
        bridge._broker.done = done  # type: ignore[method-assign]
        assert bridge.counts["enqueued"] == 1

    carried(desk, url, enqueued)
    (job,) = desk.store.find(Filter(states=(State.QUEUED,)))
    assert (job.queue, job.name, job.payload) == ("orders", "ship", b'{"order": 7}')


async def _lost(messages: object) -> None:
    """The broker never hears of it."""


def test_a_bridge_waits_for_a_broker_that_is_not_there_and_ends_when_told_to(
    desk: Desk, told: pytest.LogCaptureFixture
) -> None:
    async def patient(bridge: Bridge) -> None:
        await until(lambda: told.text.count("again in") >= 2)

    carried(desk, "nats://127.0.0.1:1/answers", patient)
    assert "nothing came" in told.text
