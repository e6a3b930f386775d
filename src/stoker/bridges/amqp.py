"""AMQP 0-9-1, such as RabbitMQ: one queue, acknowledged by hand.

A useless message is rejected: it goes where the queue's own dead-letter exchange sends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aio_pika
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage

from stoker.bridges.address import Address
from stoker.bridges.inbox import MOST, Inbox
from stoker.bridges.message import Message, with_topic
from stoker.errors import BadInput

_PROPERTIES = ("correlation_id", "message_id", "reply_to", "type", "app_id", "user_id")
_CONNECT = 10


def broker(address: Address) -> AmqpBroker:
    """The broker that is meant."""
    if not address.options.get("queue"):
        raise BadInput("amqp:// needs a queue, as in amqp://host:5672/?queue=answers")
    return AmqpBroker(address)


class AmqpBroker:
    """One consumer."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._host = address.host()
        self._queue = address.options["queue"]
        self._connection: AbstractConnection | None = None
        self._inbox: Inbox | None = None

    async def connect(self) -> None:
        """Consume the queue, which must be there."""
        address, (host, port) = self._address, self._host
        inbox = self._inbox = Inbox()
        self._connection = await aio_pika.connect(
            host=host,
            port=port,
            login=address.user or "guest",
            password=address.password or "guest",
            virtualhost=address.path or "/",
            ssl=address.tls,
            timeout=_CONNECT,
        )
        channel = await self._connection.channel()

        def lost(_: Any, error: BaseException | None) -> None:
            inbox.put(ConnectionError(f"the channel was closed: {error}"))

        channel.close_callbacks.add(lost)
        await channel.set_qos(prefetch_count=MOST)
        queue = await channel.get_queue(self._queue, ensure=True)

        async def came(message: AbstractIncomingMessage) -> None:
            inbox.put(_message(message))

        await queue.consume(came)

    async def take(self) -> Sequence[Message]:
        """What has come."""
        assert self._inbox is not None
        return await self._inbox.take()

    async def done(self, messages: Sequence[Message]) -> None:
        """Acknowledge those that were not rejected."""
        for message in messages:
            if not message.handle.processed:
                await message.handle.ack()

    async def bury(self, message: Message, reason: str) -> None:  # noqa: ARG002 - as it came
        """Reject it for good."""
        await message.handle.reject(requeue=False)

    async def close(self) -> None:
        """End the connection; what was not acknowledged goes back to the queue."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()


def _message(message: AbstractIncomingMessage) -> Message:
    names = {name: str(value) for name, value in message.headers.items()}
    for name in _PROPERTIES:
        value = getattr(message, name)
        if value:
            names[name] = str(value)
    once = f"amqp:{message.message_id}" if message.message_id else None
    return Message(message.body, with_topic(message.routing_key or "", ".", names), once, message)
