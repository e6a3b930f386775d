"""A server of each kind for all tests that a process runs, and a wire to each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bridges.wires import Amqp, JetStream, Kafka, Mqtt, Wire, rabbit
from tests.servers import nats
from tests.servers.nats import NatsServer


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    with nats.server() as own:
        yield own


@pytest.fixture(params=["amqp", "jetstream", "kafka", "mqtt"])
def wire(request: pytest.FixtureRequest) -> Wire:
    """One of the brokers."""
    if request.param == "kafka":
        return Kafka()
    if request.param == "amqp":
        return Amqp(request.getfixturevalue("rabbit_server"))
    server = request.getfixturevalue("nats_server")
    return JetStream(server) if request.param == "jetstream" else Mqtt(server)


@pytest.fixture(scope="session")
def rabbit_server() -> Iterator[object]:
    with rabbit() as own:
        yield own
