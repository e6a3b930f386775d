"""MQTT 3.1.1, with a session that lasts: what was not acknowledged comes again.

A message is acknowledged when it was seen to, not when it was read: hence paho's own client, which
can wait with that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from paho.mqtt.client import Client, MQTTMessage, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion

from stoker.bridges.address import Address
from stoker.bridges.inbox import Inbox
from stoker.bridges.message import Message, with_topic
from stoker.errors import BadInput

_AT_LEAST_ONCE = 1
_KEEPALIVE = 30
_PATIENCE = 10.0


def broker(address: Address) -> MqttBroker:
    """The broker that is meant."""
    if not address.path:
        raise BadInput("mqtt:// needs a topic, as in mqtt://host:1883/answers/+?client=shop")
    if not address.options.get("client"):
        raise BadInput("mqtt:// needs client=NAME: by it the broker knows what is still to come")
    return MqttBroker(address)


class MqttBroker:
    """One client with a session of its own."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._host = address.host()
        self._dead = address.options.get("dead")
        self._inbox: Inbox | None = None
        self._client: Client | None = None

    async def connect(self) -> None:
        """Take up the session, and subscribe."""
        inbox, ready = Inbox(), asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        client = self._new_client()

        def settled(error: Exception | None) -> None:
            if not ready.done():
                ready.set_result(error)

        def on_connect(_c: Any, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
            if reason.is_failure:
                loop.call_soon_threadsafe(settled, ConnectionError(f"refused: {reason}"))
            else:
                client.subscribe(self._address.path, qos=_AT_LEAST_ONCE)

        def on_subscribe(_c: Any, _u: Any, _m: Any, reasons: Any, _p: Any) -> None:
            refused = ConnectionError(f"{self._address.path} cannot be subscribed to")
            failed = any(reason.is_failure for reason in reasons)
            loop.call_soon_threadsafe(settled, refused if failed else None)

        client.on_connect = on_connect
        client.on_subscribe = on_subscribe
        client.on_message = lambda _c, _u, message: inbox.put_from_thread(_message(message))
        client.on_disconnect = lambda *_: inbox.put_from_thread(ConnectionError("disconnected"))
        self._client, self._inbox = client, inbox
        await asyncio.to_thread(client.connect, *self._host, _KEEPALIVE)
        client.loop_start()
        async with asyncio.timeout(_PATIENCE):
            error = await ready
        if error is not None:
            raise error

    def _new_client(self) -> Client:
        address = self._address
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=address.options["client"],
            clean_session=False,
            protocol=MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        if address.user is not None:
            client.username_pw_set(address.user, address.password)
        if address.tls:
            client.tls_set()
        return client

    async def take(self) -> Sequence[Message]:
        """What has come."""
        assert self._inbox is not None
        return await self._inbox.take()

    async def done(self, messages: Sequence[Message]) -> None:
        """Acknowledge them."""
        assert self._client is not None
        for message in messages:
            self._client.ack(message.handle.mid, message.handle.qos)

    async def bury(self, message: Message, reason: str) -> None:  # noqa: ARG002 - no headers here
        """Send it to the topic for such messages."""
        if self._dead is not None and self._client is not None:
            sent = self._client.publish(self._dead, message.body, qos=_AT_LEAST_ONCE)
            await asyncio.to_thread(sent.wait_for_publish, _PATIENCE)

    async def close(self) -> None:
        """Disconnect; the session goes on without us."""
        if self._client is not None:
            client, self._client = self._client, None
            client.disconnect()
            await asyncio.to_thread(client.loop_stop)


def _message(message: MQTTMessage) -> Message:
    return Message(bytes(message.payload), with_topic(message.topic, "/", {}), handle=message)
