"""Texts as PostgreSQL can keep them: it knows no NUL character, which a message may well hold."""

from __future__ import annotations

import re

_ESCAPE = "\x01"
_ESCAPED = {"\x00": "\x010", "\x01": "\x011"}
_MEANT = {form: char for char, form in _ESCAPED.items()}


def written(text: str) -> str:
    """The text as it is stored.

    >>> written("as usual"), written("a\\0b")
    ('as usual', 'a\\x010b')
    """
    if "\x00" not in text and _ESCAPE not in text:
        return text
    return "".join(_ESCAPED.get(char, char) for char in text)


def read(text: str) -> str:
    """The text that was meant.

    >>> read(written("a\\0b\\1c")) == "a\\0b\\1c"
    True
    """
    if _ESCAPE not in text:
        return text
    return re.sub("\x01[01]", lambda found: _MEANT[found[0]], text)
