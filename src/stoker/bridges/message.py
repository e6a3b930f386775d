"""One message, and where its key stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from stoker.errors import BadInput


class Message(msgspec.Struct, frozen=True):
    """What came from a broker."""

    body: bytes
    names: Mapping[str, str]
    """Its headers and properties, and what it was sent to: `topic`, and the `leaf` of that."""
    once: str | None = None
    """What it is known by if it comes again, where brokers have such a thing."""
    handle: Any = None
    """The broker's own, by which it is acknowledged."""


class Broker(Protocol):
    """What a bridge needs of a broker. Whatever goes wrong is raised; then all begins anew."""

    async def connect(self) -> None:
        """Begin to receive; what was not acknowledged before comes again."""

    async def take(self) -> Sequence[Message]:
        """The next messages, at least one, as soon as there are any."""

    async def done(self, messages: Sequence[Message]) -> None:
        """They need not come again, those that were buried included."""

    async def bury(self, message: Message, reason: str) -> None:
        """This one is of no use: put it where such messages go, if there is such a place."""

    async def close(self) -> None:
        """Receive no more, and let go of the connection."""


def with_topic(topic: str, separator: str, names: Mapping[str, str]) -> dict[str, str]:
    """The names of a message that was sent to a topic of several parts."""
    return {**names, "topic": topic, "leaf": topic.rpartition(separator)[2]}


def named(message: Message, name: str) -> str:
    """What a header or a property says."""
    found = message.names.get(name)
    if not found:
        known = ", ".join(sorted(message.names)) or "none"
        raise BadInput(f"it has no {name!r} (there is {known})")
    return found


def inside(message: Message, path: str) -> str:
    """What stands in its body, a JSON document, at a path such as `order.items.0.id`."""
    value = document(message)
    for step in path.split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            value = None
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise BadInput(f"its body has no text and no whole number at {path!r}")
    return str(value)


def document(message: Message) -> Any:
    """The body of a message that must be JSON."""
    try:
        return msgspec.json.decode(message.body)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"its body is no JSON: {error}") from error
