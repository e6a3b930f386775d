"""The servers on which the bench is tried."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.engines import ENGINES
from bench.engines.engine import Engine


@contextmanager
def open_to_servers() -> Iterator[Path]:
    """Root's servers run as nobody, who may not enter the folders that pytest makes for root."""
    with tempfile.TemporaryDirectory(prefix="stoker-test-bench-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(scope="session")
def engines() -> Iterator[dict[str, Engine]]:
    with (
        open_to_servers() as folder,
        ENGINES["redis"](folder) as first,
        ENGINES["postgres"](folder) as second,
    ):
        yield {"redis": first, "postgres": second}
