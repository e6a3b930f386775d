"""Numbers in requests: ids, sessions, leases, revisions, cursors. All of ours fit into 64 bits.

They are texts of digits until they are read here, for Python refuses to read very long ones.
"""

from __future__ import annotations

from starlette.convertors import (  # codespell:ignore convertors
    StringConvertor,
    register_url_convertor,
)

from stoker.errors import BadInput
from stoker.kernel.job import LARGEST_ID

_MOST_DIGITS = len(str(LARGEST_ID))


class Digits(StringConvertor):
    """A part of a path that is a number."""

    regex = "[0-9]+"


register_url_convertor("digits", Digits())


def read_number(text: str) -> int | None:
    """The number that a text is; None: it is none, or too large to be one of ours."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        return None
    value = int(text)
    return value if value <= LARGEST_ID else None


def number(text: str) -> int:
    """A number that was said: an id, or, as a text for many a JSON reader's sake, a session, a
    lease or a cursor."""
    value = read_number(text)
    if value is None:
        raise BadInput(f"{text!r} is no number, or too large a one to be one of ours")
    return value
