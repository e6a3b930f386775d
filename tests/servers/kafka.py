"""A Kafka broker for tests: the mock cluster inside librdkafka, on a loopback port of its own.

It keeps records, groups and their offsets for as long as this process lives.
"""

from __future__ import annotations

from functools import cache

from confluent_kafka import Producer

PATIENCE = 30.0


class KafkaServer:
    """The cluster, and somebody who sends records to it."""

    def __init__(self) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": "none",
                "test.mock.num.brokers": 1,
                "log_level": 0,
                "linger.ms": 0,
            }
        )
        (broker,) = self._producer.list_topics(timeout=PATIENCE).brokers.values()
        self.url = f"kafka://{broker.host}:{broker.port}"

    def send(self, topic: str, body: bytes, key: str | None = None, **headers: str) -> None:
        """Send one record, and see that it is there."""
        said: list[tuple[str, str | bytes | None]] = [*headers.items()]
        self._producer.produce(topic, body, key=key, headers=said)
        assert self._producer.flush(PATIENCE) == 0


@cache
def default_server() -> KafkaServer:
    """One for each process that runs tests."""
    return KafkaServer()
