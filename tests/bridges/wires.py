"""The brokers behind one face: whoever answers sends here, and a bridge listens there."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count
from typing import Protocol

import aio_pika
import nats
import pytest
from aiokafka import AIOKafkaConsumer
from nats.js.api import ConsumerConfig
from paho.mqtt import publish
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from tests.servers import kafka, rabbitmq
from tests.servers.nats import NatsServer
from tests.servers.valkey import HOST, PATIENCE

_numbers = count()


class Server(Protocol):
    """A broker that can be away for a while."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Wire(ABC):
    """Answers under keys, and a place for useless ones; nobody else uses the same names."""

    url: str
    """For the bridge."""
    server: Server | None = None

    def __init__(self) -> None:
        self.name = f"answers{next(_numbers)}"

    @abstractmethod
    def send(self, key: str, body: bytes) -> None:
        """Send a message."""

    @abstractmethod
    def buried(self) -> bytes:
        """The next message in the place for useless ones."""


class Kafka(Wire):
    def __init__(self) -> None:
        super().__init__()
        self._broker = kafka.default_server()
        self.url = (
            f"{self._broker.url}/{self.name}?group={self.name}&session=4&dead={self.name}.dead"
        )

    def send(self, key: str, body: bytes) -> None:
        self._broker.send(self.name, body, key=key)

    def buried(self) -> bytes:
        return asyncio.run(self._buried())

    async def _buried(self) -> bytes:
        where = self._broker.url.removeprefix("kafka://")
        consumer = AIOKafkaConsumer(
            f"{self.name}.dead", bootstrap_servers=where, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            record = await consumer.getone()
            assert dict(record.headers)["stoker-error"].startswith(b"its body is no JSON")
            return bytes(record.value)
        finally:
            await consumer.stop()


class _Nats(Wire):
    """Both ways into one server; what is sent to dead.NAME, or dead/NAME, is kept by a stream."""

    def __init__(self, server: NatsServer) -> None:
        super().__init__()
        self.server = self._nats = server
        asyncio.run(self._make())

    async def _make(self) -> None:
        async with await nats.connect(self._nats.url) as client:
            stream = client.jetstream()
            await stream.add_stream(name=f"{self.name}-dead", subjects=[f"dead.{self.name}"])
            await stream.add_stream(name=self.name, subjects=[f"{self.name}.*"])
            soon = ConsumerConfig(durable_name="shop", ack_wait=0.5)
            await stream.add_consumer(self.name, soon)

    def buried(self) -> bytes:
        return asyncio.run(self._buried())

    async def _buried(self) -> bytes:
        async with await nats.connect(self._nats.url) as client:
            message = await client.jetstream().get_msg(f"{self.name}-dead", 1)
            return message.data or b""


class JetStream(_Nats):
    def __init__(self, server: NatsServer) -> None:
        super().__init__(server)
        self.url = f"{server.url}/{self.name}.*?durable=shop&dead=dead.{self.name}"

    def send(self, key: str, body: bytes) -> None:
        asyncio.run(self._send(key, body))

    async def _send(self, key: str, body: bytes) -> None:
        async with await nats.connect(self._nats.url) as client:
            await client.jetstream().publish(f"{self.name}.{key}", body)


class Mqtt(_Nats):
    def __init__(self, server: NatsServer) -> None:
        super().__init__(server)
        self.url = f"{server.mqtt_url}/{self.name}/+?client={self.name}&dead=dead/{self.name}"
        self._take_a_seat()

    def _take_a_seat(self) -> None:
        """The broker keeps messages for those only that have been there before."""
        ready = threading.Event()
        client = Client(CallbackAPIVersion.VERSION2, self.name, clean_session=False)

        def on_connect(*_: object) -> None:
            client.subscribe(f"{self.name}/+", qos=1)

        client.on_connect = on_connect
        client.on_subscribe = lambda *_: ready.set()
        client.connect(HOST, self._nats.mqtt_port)
        client.loop_start()
        assert ready.wait(PATIENCE)
        client.disconnect()
        client.loop_stop()

    def send(self, key: str, body: bytes) -> None:
        port = self._nats.mqtt_port
        publish.single(f"{self.name}/{key}", body, qos=1, hostname=HOST, port=port)


class Amqp(Wire):
    def __init__(self, server: rabbitmq.RabbitServer) -> None:
        super().__init__()
        self.server = self._rabbit = server
        self.url = f"{server.url}/?queue={self.name}"
        asyncio.run(self._make())

    async def _make(self) -> None:
        async with await aio_pika.connect(self._rabbit.url) as connection:
            channel = await connection.channel()
            dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{self.name}.dead"}
            await channel.declare_queue(self.name, durable=True, arguments=dict(dead))
            await channel.declare_queue(f"{self.name}.dead", durable=True)

    def send(self, key: str, body: bytes) -> None:
        asyncio.run(self._send(key, body))

    async def _send(self, key: str, body: bytes) -> None:
        message = aio_pika.Message(
            body,
            correlation_id=key,
            message_id=f"{self.name} {next(_numbers)}",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        async with await aio_pika.connect(self._rabbit.url) as connection:
            channel = await connection.channel()
            await channel.default_exchange.publish(message, routing_key=self.name)

    def buried(self) -> bytes:
        return asyncio.run(self._buried())

    async def _buried(self) -> bytes:
        async with await aio_pika.connect(self._rabbit.url) as connection:
            channel = await connection.channel()
            queue = await channel.get_queue(f"{self.name}.dead")
            message = await queue.get(timeout=10)
            assert message is not None
            return message.body


@contextlib.contextmanager
def rabbit() -> Iterator[rabbitmq.RabbitServer]:
    """A RabbitMQ, where there is a way to it."""
    root = rabbitmq.root()
    if root is None:
        pytest.skip(rabbitmq.WHY_NOT)
    with rabbitmq.server(root) as own:
        yield own
