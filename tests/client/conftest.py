"""An app on each engine, with its time under control and its jobs run on demand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from stoker import Desk, Stoker
from stoker.testing import Harness, VirtualClock
from tests.engines import ENGINES

NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(params=sorted(ENGINES))
def stoker(request: pytest.FixtureRequest) -> Iterator[Harness]:
    clock = VirtualClock(NEW_YEAR)
    with ENGINES[request.param](clock) as store:
        app = Stoker("memory:")
        app.sit_at(Desk(store, dice=lambda: 0.0))
        harness = Harness(app, clock)
        yield harness
        harness.close()


@pytest.fixture
def app(stoker: Harness) -> Stoker:
    return stoker.app
