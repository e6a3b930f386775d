"""A house for each test here, on every engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.desk import Desk
from tests.engines import VirtualClock
from tests.hipq.house import House


@pytest.fixture
def house(desk: Desk, clock: VirtualClock) -> Iterator[House]:
    house = House(desk, clock)
    yield house
    house.stage.close()
