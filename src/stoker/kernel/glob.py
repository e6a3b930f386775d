"""Names by GLOB, letter for letter as SQLite's GLOB operator reads them.

    *        any run of characters, also none
    ?        exactly one character
    [abc]    one of these          [a-z]   one of a range          [^...]   none of these

Case matters. There is no escape character: a wildcard is taken literally inside a set (`[*]`,
`[?]`, `[[]`), and so is a `]` that comes first in it (`[]]`). A set that is never closed matches
nothing. Every store matches names by this one reading, whatever its engine offers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from stoker.errors import BadInput

LONGEST_PATTERN = 256

_WILDCARDS = frozenset("*?[")


class _Set(NamedTuple):
    """The inside of `[...]`: spans of characters, both ends included."""

    spans: tuple[tuple[str, str], ...] = ()
    inverted: bool = False


# A literal `*`, `?` or `[` can only be written as a set, so a bare one is always the wildcard.
_Token = str | _Set

_NOTHING = _Set()


def glob_matches(pattern: str, name: str) -> bool:
    """Whether the whole `name` fits `pattern`; takes at most len(pattern) * len(name) steps."""
    if not is_glob(pattern):
        return pattern == name
    tokens = _tokens(pattern)
    token = char = 0
    star, resume = -1, 0
    while char < len(name):
        if token < len(tokens) and tokens[token] == "*":
            star, resume = token, char
            token += 1
        elif token < len(tokens) and _fits(tokens[token], name[char]):
            token += 1
            char += 1
        elif star >= 0:
            # Going back to the latest star is enough: whatever an earlier one could still take,
            # the latest one can take as well.
            resume += 1
            token, char = star + 1, resume
        else:
            return False
    return all(rest == "*" for rest in tokens[token:])


def is_glob(text: str) -> bool:
    """Whether `text` holds a wildcard; without one it is a plain name that matches itself only."""
    return not _WILDCARDS.isdisjoint(text)


def literal_prefix(pattern: str) -> str:
    """What every matching name begins with, so that an index can be searched by range."""
    for position, char in enumerate(pattern):
        if char in _WILDCARDS:
            return pattern[:position]
    return pattern


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that is too long to be matched against many names."""
    if len(pattern) > LONGEST_PATTERN:
        raise BadInput(
            f"the name pattern has {len(pattern)} characters; at most {LONGEST_PATTERN} are "
            "allowed: shorten it, for instance with a *"
        )


def _fits(token: _Token, char: str) -> bool:
    if isinstance(token, _Set):
        return any(low <= char <= high for low, high in token.spans) != token.inverted
    return token in ("?", char)


@lru_cache(maxsize=512)
def _tokens(pattern: str) -> tuple[_Token, ...]:
    tokens: list[_Token] = []
    position = 0
    while position < len(pattern):
        if pattern[position] == "[":
            token, position = _read_set(pattern, position + 1)
            tokens.append(token)
        else:
            tokens.append(pattern[position])
            position += 1
    return tuple(tokens)


def _read_set(pattern: str, position: int) -> tuple[_Set, int]:
    """Read a set from just after its `[`; also return the position just after its `]`."""
    inverted = pattern.startswith("^", position)
    start = position + inverted
    end = pattern.find("]", start + 1)
    if end < 0:
        return _NOTHING, len(pattern)
    return _Set(_spans(pattern[start:end]), inverted), end + 1


def _spans(inside: str) -> tuple[tuple[str, str], ...]:
    spans: list[tuple[str, str]] = []
    low = None  # what a following `-` would make the lower end of a range
    position = 0
    while position < len(inside):
        char = inside[position]
        if char == "-" and low is not None and position + 1 < len(inside):
            position += 1
            spans.append((low, inside[position]))
            low = None
        else:
            spans.append((char, char))
            # A leading `]` is a member but, in SQLite's reading, never begins a range.
            low = None if char == "]" else char
        position += 1
    return tuple(spans)
