"""Whatever a conformance test did, the store's counters must be right in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.store import Store
from tests.engines import ENGINES_AND_LIBRARIES, VirtualClock
from tests.store.conformance.acts import counted, surveyed


@pytest.fixture(params=sorted(ENGINES_AND_LIBRARIES))
def store(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[Store]:
    """Every test here runs once on each engine."""
    with ENGINES_AND_LIBRARIES[request.param](clock) as store:
        yield store


@pytest.fixture(autouse=True)
def _the_books_balance(store: Store) -> Iterator[None]:
    yield
    assert surveyed(store) == counted(store)
