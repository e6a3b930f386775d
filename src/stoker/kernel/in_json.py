"""Values as JSON: what it has no form for is refused, and not bent into something else."""

from __future__ import annotations

import re
from math import isfinite

import msgspec

from stoker.errors import BadInput

_ENCODE = msgspec.json.Encoder().encode
_PACK = msgspec.msgpack.Encoder().encode
_ENDLESS = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")  # how inf and nan are packed


def encoded(value: object) -> bytes:
    """The value as JSON; a TypeError, ValueError or RecursionError tells why there is none."""
    text = _ENCODE(value)
    # Infinity and nan are written as null, so that few values have to be looked into.
    if (
        text.find(b"null") >= 0
        and _seems_endless(value)
        and _is_endless(msgspec.to_builtins(value))
    ):
        raise ValueError(
            "it holds a number that is infinite or none at all (nan); give a finite one, or None"
        )
    return text


def json_of(what: str, value: object) -> bytes:
    """The same for what somebody said, which is called so in the error."""
    try:
        return encoded(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{what} cannot travel as JSON: {error}") from error


def _seems_endless(value: object) -> bool:
    """Whether such a number may be in it; bytes may look like one. Quicker than to look at all."""
    try:
        return _ENDLESS.search(_PACK(value)) is not None
    except OverflowError:
        return True  # a whole number that cannot be packed


def _is_endless(value: object) -> bool:
    if isinstance(value, float):
        return not isfinite(value)
    if isinstance(value, dict):
        return any(map(_is_endless, value.values()))
    return isinstance(value, list | tuple) and any(map(_is_endless, value))
