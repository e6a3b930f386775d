"""The engines that jobs can be kept in, each as the bench needs it: `ENGINES` by name.

engine.py          what an engine gives the bench
server.py          starting a database server and ending it
sqlite.py ...      one engine a file
raw_*.py, lua/     the leanest loops with the bare drivers; SQLite's is `bench/raw.py`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from bench.engines import postgres, redis, sqlite
from bench.engines.engine import Engine

ENGINES: Mapping[str, Callable[[Path], AbstractContextManager[Engine]]] = {
    "sqlite": sqlite.started,
    "redis": redis.started,
    "postgres": postgres.started,
}
"""Each is started with its data in a folder, and ended with the block."""
