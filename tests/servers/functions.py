"""The functions in the Redis server, changed in one place and under a name of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from stoker.store.redis import wire
from stoker.store.redis.library import Library, library
from tests.servers import valkey

_BY_LANES = "return page.only_keys and"
_ROW = "local ROW = 16"


@contextmanager
def changed(sound: str, other: str, name: str) -> Iterator[None]:
    """As long as the block lasts stores call functions that say something else."""
    with mock.patch.object(wire, "library", return_value=_changed(sound, other, name)):
        yield


def _changed(sound: str, other: str, name: str) -> Library:
    code, digest = library()
    assert code.count(sound) == 1, f"it is no longer said so: {sound}"
    return Library(code.replace(sound, other).replace(digest, name), name)


@contextmanager
def walking() -> Iterator[None]:
    """Jobs are always chosen by walking, never by lanes."""
    with changed(_BY_LANES, "return false and", "walking"):
        yield


@contextmanager
def in_short_rows() -> Iterator[None]:
    """No more than three jobs of a lane line up at once, so that there are many rows."""
    with changed(_ROW, "local ROW = 3", "short"):
        yield


def forget(name: str) -> None:
    """Nothing is left of functions that were changed."""
    with valkey.default_server().client() as client:
        client.function_delete(f"stoker_{name}")
