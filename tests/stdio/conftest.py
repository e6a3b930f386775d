"""A bus on every engine."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from tests.engines import VirtualClock
from tests.stdio.bus import Bus


@pytest.fixture
def bus(desk: Desk, clock: VirtualClock) -> Bus:
    return Bus(desk, clock)
