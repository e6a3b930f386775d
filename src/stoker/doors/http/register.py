"""The register of tokens: a note in the store, so that every server knows them.

A token is 256 random bits; what is kept is its SHA-256, from which nobody can tell the token.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

import msgspec

from stoker.desk import Desk
from stoker.desk.notebook import Notebook
from stoker.errors import BadInput, NotFound

Scope = Literal["enqueue", "work", "operate", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

_NOTE = "http-tokens"
_PREFIX = "stoker_"


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a token."""

    digest: str
    scopes: tuple[Scope, ...]
    rate: float | None = None
    """Requests a second; None: as the server says."""
    made_at: int = 0


_ENTRIES = msgspec.json.Decoder(dict[str, Entry])


class Register:
    """All tokens by name."""

    def __init__(self, desk: Desk) -> None:
        self._notebook = Notebook(desk.clerk)
        self._now = desk.store.now

    def entries(self) -> Mapping[str, Entry]:
        """The tokens, by name."""
        note = self._notebook.read(_NOTE)
        return {} if note is None else _ENTRIES.decode(note.value)

    def add(self, name: str, scopes: Sequence[Scope], rate: float | None = None) -> str:
        """Make a token for somebody. It is told here, and never again."""
        if not scopes or not set(scopes) <= set(SCOPES):
            raise BadInput(f"a token needs scopes; choose from {', '.join(SCOPES)}")
        token = _PREFIX + secrets.token_urlsafe(32)
        entry = Entry(digest_of(token), tuple(dict.fromkeys(scopes)), rate, self._now())

        def added(entries: dict[str, Entry]) -> None:
            if name in entries:
                raise BadInput(f"there is a token {name!r}; remove it first, or choose a name")
            entries[name] = entry

        self._change(added)
        return token

    def remove(self, name: str) -> None:
        """Let a token be good for nothing any more."""

        def removed(entries: dict[str, Entry]) -> None:
            if name not in entries:
                raise NotFound(f"there is no token {name!r}")
            del entries[name]

        self._change(removed)

    def _change(self, rule: Callable[[dict[str, Entry]], None]) -> None:
        def rewritten(value: bytes | None) -> bytes | None:
            entries = {} if value is None else _ENTRIES.decode(value)
            rule(entries)
            return msgspec.json.encode(entries) if entries else None

        self._notebook.rewrite(_NOTE, rewritten)


def digest_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()
