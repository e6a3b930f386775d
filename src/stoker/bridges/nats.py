"""NATS, with JetStream or without.

With `durable=` a stream keeps messages until they are acknowledged. Without it a message goes to
whoever listens at that moment, and is lost if nobody does.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeout

from stoker.bridges.address import Address
from stoker.bridges.inbox import MOST
from stoker.bridges.message import Message, with_topic
from stoker.errors import BadInput

_PATIENCE = 1.0
_CONNECT = 5


def broker(address: Address) -> NatsBroker:
    """The broker that is meant."""
    if not address.path:
        raise BadInput("nats:// needs a subject, as in nats://host:4222/answers.*?durable=stoker")
    if "durable" in address.options and "group" in address.options:
        raise BadInput("durable= consumers share their messages; leave out group=")
    return NatsBroker(address)


class NatsBroker:
    """One subscription."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._durable = address.options.get("durable")
        self._dead = address.options.get("dead")
        self._client: Client | None = None
        self._subscription: Any = None

    async def connect(self) -> None:
        """Subscribe, or go on with the durable consumer."""
        address, options = self._address, self._address.options
        # The bridge itself begins anew when a connection ends, for all brokers in the same way.
        self._client = await nats.connect(
            servers=[f"nats://{host}" for host in address.hosts],
            user=address.user,
            password=address.password,
            tls=ssl.create_default_context() if address.tls else None,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=_CONNECT,
            error_cb=_unheard,
        )
        if self._durable is None:
            group = options.get("group", "")
            self._subscription = await self._client.subscribe(address.path, queue=group)
        else:
            self._subscription = await self._client.jetstream().pull_subscribe(
                address.path, durable=self._durable, stream=options.get("stream")
            )

    async def take(self) -> Sequence[Message]:
        """The next messages."""
        while True:
            try:
                if self._durable is not None:
                    found = await self._subscription.fetch(MOST, timeout=_PATIENCE)
                    return [_stored(message) for message in found]
                return [_message(await self._subscription.next_msg(_PATIENCE))]
            except NatsTimeout:
                continue

    async def done(self, messages: Sequence[Message]) -> None:
        """Acknowledge them, where that means anything."""
        if self._durable is not None and self._client is not None:
            for message in messages:
                await message.handle.ack()
            await self._client.flush()

    async def bury(self, message: Message, reason: str) -> None:
        """Send it to the subject for such messages."""
        if self._dead is not None and self._client is not None:
            line = " ".join(reason.split())
            headers = {**(message.handle.headers or {}), "Stoker-Error": line}
            await self._client.publish(self._dead, message.body, headers=headers)
            await self._client.flush()

    async def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()


def _message(message: Msg, once: str | None = None) -> Message:
    return Message(
        message.data, with_topic(message.subject, ".", message.headers or {}), once, message
    )


def _stored(message: Msg) -> Message:
    about = message.metadata
    return _message(message, f"nats:{about.stream}/{about.sequence.stream}")


async def _unheard(error: Exception) -> None:
    """Whatever it is, it is raised where it matters, too."""
