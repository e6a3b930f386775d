"""Whatever a conformance test did, the store's counters must be right in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.store import Store
from tests.store.conformance.acts import counted, surveyed


@pytest.fixture(autouse=True)
def _the_books_balance(store: Store) -> Iterator[None]:
    yield
    assert surveyed(store) == counted(store)
