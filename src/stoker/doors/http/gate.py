"""The gate: who asks, what he may do, and how often.

Without any token in the register everything is open, but only on an address of this machine; and
then not to web pages, whose scripts run here and are not ours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from stoker.doors.addresses import is_loopback
from stoker.doors.http.problems import Forbidden, TooMany, Unauthorized
from stoker.doors.http.register import SCOPES, Entry, Scope, digest_of
from stoker.doors.http.settings import Settings

Headers = Mapping[bytes, bytes]

_BEARER = "bearer "
_LONGEST_AWAY = 24 * 3600


class Caller(NamedTuple):
    """Who asks: the name of a token, or nobody in particular."""

    name: str
    scopes: frozenset[Scope]


ANYBODY = Caller("", frozenset(SCOPES))


class Gate:
    """Lets requests in, or says why not."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._local = is_loopback(settings.host)
        self._entries: dict[str, tuple[Caller, float | None]] = {}
        self._pace = Pace()

    @property
    def open(self) -> bool:
        """Is no token asked for?"""
        return not self._entries and (self._local or self._settings.insecure)

    def learn(self, entries: Mapping[str, Entry]) -> None:
        """These are the tokens from now on."""
        self._entries = {
            entry.digest: (Caller(name, _granted(entry.scopes)), entry.rate)
            for name, entry in entries.items()
        }

    def admit(self, headers: Headers, scopes: Collection[Scope]) -> Caller:
        """Who asks, if he may, and if he has not asked too often."""
        caller, rate = self._identified(headers, scopes)
        limit = self._settings.rate if rate is None else rate
        if limit is not None and not self._pace.allows(caller.name, limit):
            seconds = math.ceil(min(1 / limit, _LONGEST_AWAY))
            raise TooMany(f"at most {limit:g} requests a second are allowed", seconds)
        return caller

    def still_admits(self, headers: Headers, scopes: Collection[Scope]) -> bool:
        """May he who was admitted stay? His token may have been taken away."""
        try:
            self._identified(headers, scopes)
        except (Unauthorized, Forbidden):
            return False
        return True

    def _identified(
        self, headers: Headers, scopes: Collection[Scope]
    ) -> tuple[Caller, float | None]:
        """Who asks, if he has one of the scopes, and how often he may."""
        if self.open:
            if self._local and not self._settings.insecure:
                _refuse_web_pages(headers)
            caller, rate = ANYBODY, None
        else:
            caller, rate = self._known(headers)
        if caller.scopes.isdisjoint(scopes):
            raise Forbidden(f"the token {caller.name!r} lacks the scope {' or '.join(scopes)}")
        return caller, rate

    def _known(self, headers: Headers) -> tuple[Caller, float | None]:
        said = headers.get(b"authorization", b"").decode("latin-1")
        if said[: len(_BEARER)].lower() != _BEARER:
            raise Unauthorized("this needs a token")
        found = self._entries.get(digest_of(said[len(_BEARER) :].strip()))
        if found is None:
            raise Unauthorized("nobody knows this token")
        return found


def _granted(scopes: Collection[Scope]) -> frozenset[Scope]:
    return frozenset(SCOPES if "admin" in scopes else scopes)


def _refuse_web_pages(headers: Headers) -> None:
    """A page in a browser on this machine could reach us, by our address or by another name."""
    host = headers.get(b"host", b"localhost")
    if not _is_us(host):
        name = host.decode("latin-1")
        raise Forbidden(f"this server is not called {name}; use localhost, or give out tokens")
    origin = headers.get(b"origin")
    if origin is not None and origin.partition(b"//")[2] != host:
        raise Forbidden("web pages of others are not served without a token")


@lru_cache(maxsize=64)
def _is_us(host: bytes) -> bool:
    try:
        name = urlsplit(f"//{host.decode('latin-1')}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


class Pace:
    """How often each may call: a bucket that fills by `rate` a second and holds one second's."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def allows(self, name: str, rate: float) -> bool:
        """One call more; False: too soon."""
        now, most = time.monotonic(), max(rate, 1.0)
        left, at = self._buckets.get(name, (most, now))
        left = min(most, left + (now - at) * rate)
        if left < 1.0:
            return False
        self._buckets[name] = (left - 1.0, now)
        return True
