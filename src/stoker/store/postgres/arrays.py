"""Whole columns as one parameter each: arrays in PostgreSQL's binary form.

A batch of a thousand jobs is a dozen parameters so, whatever its size, and they are put together
several times faster than the driver would do it value by value.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from stoker.store.postgres.driver import BINARY, AdaptersMap, Dumper, default_adapters
from stoker.store.postgres.texts import written

_NULL = b"\xff\xff\xff\xff"


class Array(ABC):
    """One column, ready to be sent. Its kind is its class: that is how the driver knows it."""

    __slots__ = ("data",)
    oid: int
    element: int

    def __init__(self, data: bytes) -> None:
        self.data = data

    @classmethod
    @abstractmethod
    def of(cls, values: Sequence[Any]) -> Array:
        """The column of these values, some of which may be None."""

    @classmethod
    @abstractmethod
    def _one(cls, value: Any) -> bytes:
        """One value as it stands in the column."""

    @classmethod
    def _of(cls, count: int, has_null: bool, body: bytes) -> Array:
        if not count:
            return cls(struct.pack(">iii", 0, 0, cls.element))
        return cls(struct.pack(">iiiii", 1, has_null, cls.element, count, 1) + body)


class _Numbers(Array):
    """Values of a fixed length."""

    code: str

    @classmethod
    def of(cls, values: Sequence[Any]) -> Array:
        count, size = len(values), struct.calcsize(f">{cls.code}")
        if None in values:
            packed = [_NULL if value is None else cls._one(value) for value in values]
            return cls._of(count, True, b"".join(packed))
        flat: list[Any] = [size] * (2 * count)
        flat[1::2] = values
        return cls._of(count, False, struct.pack(">" + f"i{cls.code}" * count, *flat))

    @classmethod
    def _one(cls, value: Any) -> bytes:
        return struct.pack(f">i{cls.code}", struct.calcsize(f">{cls.code}"), value)


class Bigints(_Numbers):
    """bigint[]"""

    oid, element, code = 1016, 20, "q"


class Integers(_Numbers):
    """integer[]"""

    oid, element, code = 1007, 23, "i"


class Smallints(_Numbers):
    """smallint[]"""

    oid, element, code = 1005, 21, "h"


class Booleans(_Numbers):
    """boolean[]"""

    oid, element, code = 1000, 16, "?"


class Doubles(_Numbers):
    """double precision[]"""

    oid, element, code = 1022, 701, "d"


class Blobs(Array):
    """bytea[]"""

    oid, element = 1001, 17

    @classmethod
    def of(cls, values: Sequence[Any]) -> Array:
        if None in values:
            pieces = [_NULL if value is None else _measured(value) for value in values]
            return cls._of(len(values), True, b"".join(pieces))
        lengths = [*map(len, values)]
        known = {length: _length(length) for length in {*lengths}}
        flat: list[Any] = [b""] * (2 * len(values))
        flat[::2], flat[1::2] = [known[length] for length in lengths], values
        return cls._of(len(values), False, b"".join(flat))

    @classmethod
    def _one(cls, value: bytes) -> bytes:
        return _measured(value)


class Spots(Blobs):
    """tid[], of rows as the server has shown where they are"""

    oid, element = 1010, 27


class Texts(Array):
    """text[]"""

    oid, element = 1009, 25

    @classmethod
    def of(cls, values: Sequence[str | None]) -> Array:
        # Texts of a column are few and often said.
        known = {text: _NULL if text is None else cls._one(text) for text in set(values)}
        return cls._of(len(values), None in known, b"".join([known[text] for text in values]))

    @classmethod
    def _one(cls, value: str) -> bytes:
        return _measured(written(value).encode())


_length = struct.Struct(">i").pack


def _measured(value: bytes) -> bytes:
    return _length(len(value)) + value


def adapters() -> AdaptersMap:
    """What the driver has to know to send them."""
    known = AdaptersMap(default_adapters)
    for kind in (Bigints, Integers, Smallints, Booleans, Doubles, Blobs, Spots, Texts):
        name = f"{kind.__name__}Dumper"
        known.register_dumper(kind, type(name, (_ArrayDumper,), {"oid": kind.oid}))
    return known


class _ArrayDumper(Dumper):
    format = BINARY

    def dump(self, obj: Array) -> bytes:
        return obj.data
