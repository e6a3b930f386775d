"""Fixtures for all tests: each engine behind the same names, with time under control."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from stoker.desk import Desk
from stoker.store import Store
from tests.engines import ENGINES, VirtualClock

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script, Python and all its children would not hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=sorted(ENGINES))
def store(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[Store]:
    """Every test that asks for a store runs once on each engine."""
    with ENGINES[request.param](clock) as store:
        yield store


@pytest.fixture
def desk(store: Store) -> Desk:
    """A desk whose dice always fall on 0 and whose tokens count."""
    return Desk(store, dice=lambda: 0.0, token=itertools.count(1001).__next__)
