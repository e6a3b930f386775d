"""Every test here runs once on each engine. Whatever it did, the store's counters must be right in
the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.store import Store
from tests.engines import ENGINES_AND_LIBRARIES, OTHER_WAYS, VirtualClock
from tests.store.conformance.acts import counted, surveyed

_ABOUT_CHOOSING = {
    *("ageing", "by_hand", "capacity", "claim", "edit_delete", "fair", "gone_at_once", "keys"),
    *("order", "rates", "settings", "shared_limits", "shares", "standing", "task_limits"),
}
"""Tests that see a difference if jobs are chosen in another way."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        topic = metafunc.module.__name__.rpartition(".test_")[2]
        ways = set() if topic in _ABOUT_CHOOSING else OTHER_WAYS.keys()
        metafunc.parametrize("store", sorted(ENGINES_AND_LIBRARIES.keys() - ways), indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[Store]:
    with ENGINES_AND_LIBRARIES[request.param](clock) as store:
        yield store


@pytest.fixture(autouse=True)
def _the_books_balance(store: Store) -> Iterator[None]:
    yield
    assert surveyed(store) == counted(store)
