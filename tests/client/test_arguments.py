"""Arguments: refused at once if they do not fit, and received as what they were."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest

from stoker import Context, Stoker
from stoker.client.task import Task
from stoker.errors import BadInput
from stoker.testing import Harness


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(msgspec.Struct):
    x: int
    y: int


@dataclass
class Order:
    number: int
    placed: datetime
    lines: list[Point]


class Pair(NamedTuple):
    left: int
    right: str


class Options(TypedDict):
    loud: bool


class Opaque:
    """Something that no JSON can hold."""


A_MOMENT = datetime(2030, 5, 17, 12, 30, 15, 250_000, tzinfo=UTC)

TRAVELLERS: list[tuple[Any, Any]] = [
    (int, 7),
    (int, 2**63 + 1),
    (float, 1.5),
    (str, "ä\x00\n"),
    (bool, True),
    (bytes, b"\x00\xff"),
    (datetime, A_MOMENT),
    (date, date(2030, 5, 17)),
    (time, time(12, 30)),
    (timedelta, timedelta(hours=1, microseconds=5)),
    (UUID, UUID("12345678-1234-5678-1234-567812345678")),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.BLUE),
    (Level, Level.HIGH),
    (Literal["a", "b"], "b"),
    (Annotated[int, msgspec.Meta(ge=1)], 1),
    (Point, Point(1, 2)),
    (Order, Order(7, A_MOMENT, [Point(1, 2), Point(3, 4)])),
    (Pair, Pair(1, "a")),
    (Options, {"loud": True}),
    (int | None, None),
    (int | None, 3),
    (list[Point], [Point(1, 2)]),
    (tuple[int, ...], (1, 2, 3)),
    (set[str], {"a", "b"}),
    (dict[str, Decimal], {"a": Decimal("0.1")}),
    (dict[int, str], {1: "one"}),
    (Any, {"any": ["thing", 1, None]}),
]

MISFITS: list[tuple[Any, Any, str]] = [
    (int, "7", "Expected `int`, got `str` - at `\\$.value`"),
    (int, 1.5, "Expected `int`, got `float`"),
    (int, True, "Expected `int`, got `bool`"),
    (int, None, "Expected `int`, got `null`"),
    (str, b"\xff", "UNUSED"),
    (float, float("nan"), "Expected `float`, got `null`"),
    (Colour, "green", "Invalid enum value 'green'"),
    (Literal["a"], "b", "Invalid enum value 'b'"),
    (Annotated[int, msgspec.Meta(ge=1)], 0, "Expected `int` >= 1"),
    (UUID, "no uuid", "Invalid UUID"),
    (datetime, "yesterday", "Invalid RFC3339 encoded datetime"),
    (Point, {"x": 1}, "missing required field `y`"),
    (list[int], [1, "2"], "Expected `int`, got `str` - at `\\$.value\\[1\\]`"),
    (Any, Opaque(), "Encoding objects of type Opaque is unsupported"),
    (Any, "\ud800", "surrogates not allowed"),
]


def taking(app: Stoker, hint: Any) -> tuple[Task[..., None], list[Any]]:
    """A task with one parameter of that type, and what it received."""
    received: list[Any] = []

    def take(value: Any) -> None:
        received.append(value)

    take.__annotations__["value"] = hint
    return app.task(name="take")(take), received


def called(app: Stoker, function: Callable[..., Any]) -> tuple[Task[..., Any], list[Any]]:
    """A task whose handler keeps what its function returned."""
    task = app.task(name="f")(function)
    return task, []


@pytest.mark.parametrize(("hint", "value"), TRAVELLERS, ids=[str(hint) for hint, _ in TRAVELLERS])
def test_an_argument_arrives_as_what_it_was(
    stoker: Harness, app: Stoker, hint: Any, value: Any
) -> None:
    task, received = taking(app, hint)
    task.enqueue(value)
    stoker.drain()
    assert received == [value]
    assert type(received[0]) is type(value)
