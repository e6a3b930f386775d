"""The fastest event loop there is for peers on asyncio."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import uvloop


def run(main: Coroutine[Any, Any, None]) -> None:
    """As `asyncio.run`."""
    uvloop.run(main)
