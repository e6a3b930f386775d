"""URLs of stores that nobody has made yet; whatever is there in the end is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import postgres, valkey


@contextmanager
def fresh_url(engine: str, folder: Path) -> Iterator[str]:
    """Of an engine: memory, sqlite (in the folder), postgres or redis."""
    if engine == "redis":
        with valkey.prefix(valkey.default_server()) as prefix:
            yield valkey.default_server().url(prefix)
    elif engine == "postgres":
        with postgres.stores().schema() as url:
            yield url
    else:
        yield "memory:" if engine == "memory" else f"sqlite:///{folder}/jobs.db?sync=normal"
