"""Which broker, and what of it, from a URL such as kafka://host:9092/topic?group=g&key=order.id"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

from stoker.bridges.bridge import Bridge
from stoker.bridges.errands import Errand, KeyOf, answering, enqueuing
from stoker.bridges.message import Broker, inside, named
from stoker.desk import Desk
from stoker.errors import BadInput, StokerError
from stoker.kernel.facts import check_text
from stoker.store.urls import options_of, read_port, shown, split


class Address(NamedTuple):
    """A URL, taken apart."""

    scheme: str
    hosts: tuple[str, ...]
    """Each with its port."""
    user: str | None
    password: str | None
    path: str
    options: Mapping[str, str]
    tls: bool

    def __str__(self) -> str:
        return f"{self.scheme}://{','.join(self.hosts)}/{self.path}"

    def host(self) -> tuple[str, int]:
        """The host and its port, for brokers of which there is one."""
        if len(self.hosts) > 1:
            raise BadInput(f"{self.scheme}:// takes one host, not {', '.join(self.hosts)}")
        host, _, port = self.hosts[0].rpartition(":")
        return host.strip("[]"), int(port)


class _Kind(NamedTuple):
    module: str
    port: int
    key: str
    """The name that has the key if nothing else is said."""
    options: tuple[str, ...]
    tls: bool = False


_KAFKA = _Kind("kafka", 9092, "key", ("group", "session", "dead", "mechanism"))
_NATS = _Kind("nats", 4222, "leaf", ("durable", "stream", "group", "dead"))
_MQTT = _Kind("mqtt", 1883, "leaf", ("client", "dead"))
_AMQP = _Kind("amqp", 5672, "correlation_id", ("queue",))
_KINDS: Mapping[str, _Kind] = {
    "kafka": _KAFKA,
    "kafka+tls": _KAFKA._replace(tls=True),
    "nats": _NATS,
    "tls": _NATS._replace(tls=True),
    "mqtt": _MQTT,
    "mqtts": _MQTT._replace(port=8883, tls=True),
    "amqp": _AMQP,
    "amqps": _AMQP._replace(port=5671, tls=True),
}
_COMMON = ("key", "header", "prefix", "form", "task", "into")


def open_bridge(desk: Desk, url: str) -> Bridge:
    """The bridge that a URL describes; it carries nothing until it is opened."""
    address = read_address(url)
    kind = _KINDS[address.scheme]
    return Bridge(str(address), _broker(kind, address), _errand(desk, kind, address.options))


def read_address(url: str) -> Address:
    """Take a URL apart; what cannot be meant is refused."""
    parts = split(url)
    kind = _KINDS.get(parts.scheme)
    if kind is None:
        known = ", ".join(f"{scheme}://" for scheme in _KINDS)
        raise BadInput(f"{shown(url)!r} names no broker; begin with one of {known}")
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    return Address(
        parts.scheme,
        tuple(_with_port(host, kind.port) for host in hosts.split(",")),
        unquote(user) or None,
        unquote(password) or None,
        unquote(parts.path.removeprefix("/")),
        _options(kind, parts.scheme, url),
        kind.tls,
    )


def _with_port(host: str, port: int) -> str:
    name, colon, said = host.rpartition(":")
    if colon and not said.endswith("]"):
        if read_port(said) is None:
            raise BadInput(f"{host!r} is no address; write it as in 127.0.0.1:{port}")
        return f"{name or '127.0.0.1'}:{said}"
    return f"{host or '127.0.0.1'}:{port}"


def _options(kind: _Kind, scheme: str, url: str) -> dict[str, str]:
    options = options_of(url)
    for name, text in options.items():
        check_text(f"{name}=", text)
    known = (*kind.options, *_COMMON)
    unknown = options.keys() - set(known)
    if unknown:
        raise BadInput(
            f"{scheme}:// has no option {', '.join(sorted(unknown))}; it has {', '.join(known)}"
        )
    for one, other in (("key", "header"), ("task", "key"), ("task", "header"), ("task", "prefix")):
        if {one, other} <= options.keys():
            raise BadInput(f"{one}= and {other}= cannot both be said")
    return options


def _errand(desk: Desk, kind: _Kind, options: Mapping[str, str]) -> Errand:
    if "task" in options:
        return enqueuing(desk, options["task"], options.get("into", "default"))
    form = options.get("form", "json")
    if form not in ("json", "text"):
        raise BadInput(f"form= must be json or text, not {form!r}")
    key_of = _key_of(kind, options)
    return answering(desk, key_of, prefix=options.get("prefix", ""), text=form == "text")


def _key_of(kind: _Kind, options: Mapping[str, str]) -> KeyOf:
    if "key" in options:
        return partial(inside, path=options["key"])
    return partial(named, name=options.get("header", kind.key))


def _broker(kind: _Kind, address: Address) -> Broker:
    try:
        module = importlib.import_module(f"stoker.bridges.{kind.module}")
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("stoker"):
            raise
        raise StokerError(
            f"{address.scheme}:// needs {missing.name}; pip install 'stoker[{kind.module}]'"
        ) from None
    make: Callable[[Address], Broker] = module.broker
    return make(address)
