"""What a URL says about a store on Redis or Valkey.

    redis://[user:password@]host[:port][/database]
    rediss://...                       the same over TLS
    unix://[user:password@]/path/of/the.sock
    redis+sentinel://[user:password@]host[:port],host[:port].../service[/database]
    redis+cluster://[user:password@]host[:port],host[:port]...

`rediss+sentinel` and `rediss+cluster` exist too. Behind a `?` come further wishes, see `_READERS`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from stoker.errors import BadInput
from stoker.store.redis.topology import Address
from stoker.store.urls import read_patience, read_port

SCHEMES = {"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel"}
SCHEMES |= {"redis+cluster", "rediss+cluster"}

MOST_PARTITIONS = 512
"""Ids of so many partitions stay exact in every language that keeps numbers as doubles."""

_PORTS = {"sentinel": 26379}
_LONGEST_ATTEMPT = 2.5
"""Logs that are synced every second may take two until a replica, too, has confirmed."""
_DIGITS = re.compile(r"[0-9]{1,18}")
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class Ack(enum.Enum):
    """When a write counts as acknowledged."""

    MEMORY = "memory"
    """When the server has it; what the server promises by itself is added to that."""
    FSYNC = "fsync"
    """When it is on the server's disk."""
    REPLICA = "replica"
    """When a replica has it, too."""
    FSYNC_REPLICA = "fsync+replica"
    """When it is on the disks of both."""


class Tls(msgspec.Struct, frozen=True):
    """Files for TLS; without any the system's authorities are trusted."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True


class Options(msgspec.Struct, frozen=True):
    """Everything that is to be known before the first connection."""

    kind: str
    """Empty for one server, or sentinel, or cluster."""
    addresses: tuple[Address, ...]
    service: str = ""
    database: int = 0
    username: str | None = None
    password: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = None
    tls: Tls | None = None
    prefix: str = "stoker"
    partitions: int = 1
    ack: Ack = Ack.MEMORY
    unsafe: bool = False
    patience: float = 5.0
    """Seconds for which trouble with the server is waited out."""

    @property
    def attempt(self) -> float:
        """Seconds that one server is given. Where another may take over that is a part of the
        patience, for a server that is stuck says nothing, and the rest is for its successor."""
        return min(self.patience / 2, _LONGEST_ATTEMPT) if self.kind else self.patience

    def __str__(self) -> str:
        return ", ".join(map(str, self.addresses))


def read_options(url: str) -> Options:
    """Read a URL; a mistake is told with what would do instead."""
    parts = urlsplit(url)
    scheme, _, kind = parts.scheme.partition("+")
    wishes = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    unknown = wishes.keys() - _READERS.keys()
    if parts.scheme not in SCHEMES or unknown:
        told = f"nobody knows {', '.join(sorted(unknown))}" if unknown else "no such scheme"
        raise BadInput(f"cannot read {_shown(url)}: {told}; known are {', '.join(_READERS)}")
    read = {name: _READERS[name](text) for name, text in wishes.items()}
    tls = {name: read.pop(name) for name in Tls.__struct_fields__ if name in read}
    if scheme == "rediss":
        read["tls"] = Tls(**tls)
    elif tls:
        raise BadInput(f"{', '.join(tls)} of {_shown(url)} is about TLS; begin it with rediss")
    login, _, hosts = parts.netloc.rpartition("@")
    path = unquote(parts.path)
    where = _socket(path) if scheme == "unix" else _servers(hosts, path, kind, url)
    return Options(**{"kind": kind, **_login(login), **where, **read})


def _shown(url: str) -> str:
    return repr(re.sub(r"(?<=://).*@", "", url))


def _login(text: str) -> dict[str, str]:
    username, _, password = text.partition(":")
    said = {"username": unquote(username), "password": unquote(password)}
    return {name: value for name, value in said.items() if value}


def _socket(path: str) -> dict[str, Any]:
    return {"addresses": (Address(path),)}


def _servers(hosts: str, path: str, kind: str, url: str) -> dict[str, Any]:
    port = _PORTS.get(kind, 6379)
    read: dict[str, Any] = {
        "addresses": tuple(_address(host, port, url) for host in (hosts or "localhost").split(","))
    }
    if kind == "" and len(read["addresses"]) > 1:
        raise BadInput(f"{_shown(url)} names many servers; say redis+cluster or redis+sentinel")
    steps = [step for step in path.split("/") if step]
    if kind == "sentinel":
        if not steps:
            raise BadInput(f"{_shown(url)} lacks the service the Sentinels are to be asked for")
        read["service"] = steps.pop(0)
    if steps:
        read["database"] = _whole("the database", 0, 2**31)(steps.pop(0))
    if steps or (kind == "cluster" and read.get("database")):
        raise BadInput(f"cannot read {_shown(url)}: its path says too much")
    return read


def _address(host: str, default: int, url: str) -> Address:
    name, separator, port = host.rpartition(":")
    if not separator or host.endswith("]"):
        name, port = host, str(default)
    if not name or read_port(port) is None:
        raise BadInput(f"{host!r} in {_shown(url)} is no host and port")
    return Address(name.strip("[]"), int(port))


def _whole(what: str, low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not _DIGITS.fullmatch(text) or not low <= int(text) <= high:
            raise BadInput(f"{what} must be a whole number from {low} to {high}, not {text!r}")
        return int(text)

    return read


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise BadInput(
            f"the prefix {text!r} will not do: up to 64 letters, digits and any of _ . : - will"
        )
    return text


def _ack(text: str) -> Ack:
    # A plus sign in a URL's query is read as a blank.
    try:
        return Ack(text.replace(" ", "+"))
    except ValueError:
        known = ", ".join(ack.value for ack in Ack)
        raise BadInput(f"there is no ack={text}; choose one of {known}") from None


def _yes(text: str) -> bool:
    if text not in ("0", "1"):
        raise BadInput(f"say 1 for yes or 0 for no, not {text!r}")
    return text == "1"


_READERS: Mapping[str, Callable[[str], Any]] = {
    "prefix": _prefix,
    "partitions": _whole("partitions", 1, MOST_PARTITIONS),
    "ack": _ack,
    "unsafe": _yes,
    "patience": read_patience,
    "database": _whole("the database", 0, 2**31),
    "sentinel_username": str,
    "sentinel_password": str,
    "ca": str,
    "cert": str,
    "key": str,
    "verify": _yes,
}
"""The wishes one may have: which keys are Stoker's, over how many partitions its jobs are spread,
when a write counts, whether an unsafe server will do, how long trouble is waited out, and TLS."""
