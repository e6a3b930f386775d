"""An app on the database of the caller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker import Stoker


@pytest.fixture
def app(url: str) -> Iterator[Stoker]:
    app = Stoker(url)
    yield app
    app.close()
