"""Apache Kafka, as a member of a consumer group: what was seen to is committed, and no more."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from stoker.bridges.address import Address
from stoker.bridges.inbox import MOST
from stoker.bridges.message import Message, with_topic
from stoker.errors import BadInput

_PATIENCE_MS = 1000


def broker(address: Address) -> KafkaBroker:
    """The broker that is meant."""
    if not address.path:
        raise BadInput("kafka:// needs a topic, as in kafka://host:9092/answers?group=stoker")
    return KafkaBroker(address)


class KafkaBroker:
    """One member of a group."""

    def __init__(self, address: Address) -> None:
        self._topics = address.path.split(",")
        self._group = address.options.get("group", "stoker")
        self._session_ms = _session_ms(address.options.get("session", "10"))
        self._dead = address.options.get("dead")
        self._settings = _settings(address)
        self._consumer: Any = None
        self._producer: Any = None

    async def connect(self) -> None:
        """Join the group, and go on where it was."""
        self._consumer = AIOKafkaConsumer(
            *self._topics,
            group_id=self._group,
            session_timeout_ms=self._session_ms,
            heartbeat_interval_ms=self._session_ms // 3,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **self._settings,
        )
        await self._consumer.start()
        if self._dead is not None:
            self._producer = AIOKafkaProducer(**self._settings)
            await self._producer.start()

    async def take(self) -> Sequence[Message]:
        """The next records of all partitions that are ours."""
        found: dict[Any, list[ConsumerRecord]] = {}
        while not found:
            found = await self._consumer.getmany(timeout_ms=_PATIENCE_MS, max_records=MOST)
        return [_message(record) for records in found.values() for record in records]

    async def done(self, messages: Sequence[Message]) -> None:
        """Commit what stands behind the last of each partition."""
        ends: dict[TopicPartition, int] = {}
        for record in (message.handle for message in messages):
            part = TopicPartition(record.topic, record.partition)
            ends[part] = max(ends.get(part, 0), record.offset + 1)
        await self._consumer.commit(ends)

    async def bury(self, message: Message, reason: str) -> None:
        """Send it to the topic for such records."""
        if self._producer is not None:
            record = message.handle
            headers = [*record.headers, ("stoker-error", reason.encode())]
            await self._producer.send_and_wait(
                self._dead, message.body, key=record.key, headers=headers
            )

    async def close(self) -> None:
        """Leave the group."""
        for each in (self._consumer, self._producer):
            if each is not None:
                await each.stop()
        self._consumer = self._producer = None


def _message(record: ConsumerRecord) -> Message:
    names = {name: value.decode("utf-8", "replace") for name, value in record.headers}
    if record.key is not None:
        names["key"] = record.key.decode("utf-8", "replace")
    return Message(
        record.value or b"",
        with_topic(record.topic, ".", names),
        f"kafka:{record.topic}/{record.partition}/{record.offset}",
        record,
    )


def _session_ms(seconds: str) -> int:
    """After how long the partitions of a bridge that died go to others."""
    try:
        return round(float(seconds) * 1000)
    except ValueError:
        raise BadInput(f"session= is a number of seconds, not {seconds!r}") from None


def _settings(address: Address) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": list(address.hosts)}
    login = address.user is not None
    settings["security_protocol"] = ("SASL_" if login else "") + (
        "SSL" if address.tls else "PLAINTEXT"
    )
    if address.tls:
        settings["ssl_context"] = ssl.create_default_context()
    if login:
        settings["sasl_mechanism"] = address.options.get("mechanism", "PLAIN")
        settings["sasl_plain_username"] = address.user
        settings["sasl_plain_password"] = address.password
    return settings
