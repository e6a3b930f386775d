"""Operations on tokens, and on the server itself."""

from __future__ import annotations

import msgspec

from stoker import __version__
from stoker.doors.cli.words import iso
from stoker.doors.http import wishes
from stoker.doors.http.answers import NOTHING, Answer, told
from stoker.doors.http.endpoint import Call, Operation
from stoker.doors.http.register import Scope


class TokenForm(msgspec.Struct, frozen=True):
    """A token, of which only its maker was told how it reads."""

    name: str
    scopes: tuple[Scope, ...]
    rate: float | None
    made_at: str


class Tokens(msgspec.Struct, frozen=True):
    """All tokens, by name."""

    tokens: list[TokenForm]


class MadeToken(msgspec.Struct, frozen=True):
    """A new token: keep it, it is not shown again."""

    name: str
    token: str


class Health(msgspec.Struct, frozen=True):
    """The server runs."""

    status: str
    version: str


async def list_tokens(call: Call) -> Answer:
    """All tokens."""
    entries = await call.office.run(call.office.register.entries)
    forms = [
        TokenForm(name, entry.scopes, entry.rate, iso(entry.made_at))
        for name, entry in sorted(entries.items())
    ]
    return told(Tokens(forms))


async def add_token(call: Call) -> Answer:
    """Make a token."""
    wish: wishes.NewToken = call.body
    token = await call.office.run(call.office.register.add, wish.name, wish.scopes, wish.rate)
    await call.office.learn()
    return told(MadeToken(wish.name, token), 201)


async def remove_token(call: Call) -> Answer:
    """Let a token be good for nothing any more."""
    await call.office.run(call.office.register.remove, call.path["name"])
    await call.office.learn()
    return NOTHING


async def health(call: Call) -> Answer:  # noqa: ARG001 - all operations look alike
    """Does the server run?"""
    return told(Health("ok", __version__))


async def ready(call: Call) -> Answer:
    """Can the server serve: does the store answer, and is the door not about to close?"""
    if not call.office.ready:
        return told(Health("closing", __version__), 503)
    await call.office.run(call.office.desk.store.notes, ["http-ready"])
    return told(Health("ok", __version__))


_ADMIN: tuple[Scope, ...] = ("admin",)

OPERATIONS = [
    Operation(
        *("GET", "/v1/tokens", list_tokens, "All tokens"),
        scopes=_ADMIN,
        answers={200: Tokens},
    ),
    Operation(
        *("POST", "/v1/tokens", add_token, "Make a token"),
        scopes=_ADMIN,
        body=wishes.NewToken,
        answers={201: MadeToken},
    ),
    Operation(
        *("DELETE", "/v1/tokens/{name:path}", remove_token, "Take a token away"),
        scopes=_ADMIN,
        answers={204: None},
        problems=("not_found",),
    ),
    Operation(
        *("GET", "/health", health, "Does the server run?"),
        answers={200: Health},
    ),
    Operation(
        *("GET", "/ready", ready, "Can the server serve?"),
        answers={200: Health, 503: Health},
    ),
]
