"""Arguments: refused at once if they do not fit, and received as what they were."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import inf, nan
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest

from stoker import Context, JobHandle, Stoker
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
    (tuple[bytes, int, None], (b"\xcb\x7f\xf0", 2**70, None)),  # packed, it looks like inf
]

MISFITS: list[tuple[Any, Any, str]] = [
    (int, "7", "Expected `int`, got `str` - at `\\$.value`"),
    (int, 1.5, "Expected `int`, got `float`"),
    (int, True, "Expected `int`, got `bool`"),
    (int, None, "Expected `int`, got `null`"),
    (int, inf, "'value' of the task .* infinite or none at all .*; give a finite one, or None"),
    (int, nan, "'value' of the task .* infinite or none at all .*; give a finite one, or None"),
    (str, -inf, "'value' of the task .* cannot travel as JSON: it holds a number that is inf"),
    (int, [1, inf], "'value' of the task .* cannot travel as JSON: it holds a number that is inf"),
    (float, float("nan"), "it holds a number that is infinite or none at all"),
    (Colour, "green", "Invalid enum value 'green'"),
    (Literal["a"], "b", "Invalid enum value 'b'"),
    (Annotated[int, msgspec.Meta(ge=1)], 0, "Expected `int` >= 1"),
    (UUID, "no uuid", "Invalid UUID"),
    (datetime, "yesterday", "Invalid RFC3339 encoded datetime"),
    (Point, {"x": 1}, "missing required field `y`"),
    (list[int], [1, "2"], "Expected `int`, got `str` - at `\\$.value\\[1\\]`"),
    (Any, Opaque(), "Encoding objects of type Opaque is unsupported"),
    (Any, "\ud800", "surrogates not allowed"),
    (float | None, nan, "'value' .* cannot travel as JSON: it holds a number that is infinite"),
    (Any, {"a": [None, (1, -inf)]}, "cannot travel as JSON: it holds a number that is infinite"),
    (list[Order | None], [Order(inf, A_MOMENT, [])], "JSON: it holds a number"),  # type: ignore[arg-type]
]


def taking(app: Stoker, hint: Any) -> tuple[Task[..., None], list[Any]]:
    """A task with one parameter of that type, and what it received."""
    received: list[Any] = []

    def take(value: Any) -> None:
        received.append(value)

    take.__annotations__["value"] = hint
    return app.task(name="take")(take), received


@pytest.mark.parametrize(("hint", "value"), TRAVELLERS, ids=[str(hint) for hint, _ in TRAVELLERS])
def test_an_argument_arrives_as_what_it_was(
    stoker: Harness, app: Stoker, hint: Any, value: Any
) -> None:
    task, received = taking(app, hint)
    task.enqueue(value)
    stoker.drain()
    assert received == [value]
    assert type(received[0]) is type(value)


@pytest.mark.parametrize(
    ("hint", "value", "complaint"),
    MISFITS,
    ids=[f"{hint} {value!r:.9}" for hint, value, _ in MISFITS],
)
def test_an_argument_that_does_not_fit_is_refused_and_nothing_is_enqueued(
    stoker: Harness, app: Stoker, hint: Any, value: Any, complaint: str
) -> None:
    task, _ = taking(app, hint)
    with pytest.raises(BadInput, match=complaint) as caught:
        task.enqueue(value)
    assert "'take'" in str(caught.value)
    assert stoker.jobs() == []


def test_a_structure_that_contains_itself_is_refused(stoker: Harness, app: Stoker) -> None:
    task, _ = taking(app, Any)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(
        BadInput, match="the argument 'value' of the task 'take' cannot travel as JSON: max"
    ):
        task.enqueue(endless)


def test_what_is_the_same_in_json_is_taken_as_it_is_meant(stoker: Harness, app: Stoker) -> None:
    task, received = taking(app, UUID)
    task.enqueue("12345678-1234-5678-1234-567812345678")
    stoker.drain()
    assert received == [UUID("12345678-1234-5678-1234-567812345678")]


def test_without_a_hint_an_argument_is_what_its_json_says(stoker: Harness, app: Stoker) -> None:
    received = []

    @app.task
    def take(value):  # type: ignore[no-untyped-def]
        received.append(value)

    take.enqueue((Point(1, 2), A_MOMENT))
    stoker.drain()
    assert received == [[{"x": 1, "y": 2}, "2030-05-17T12:30:15.250000Z"]]


# -- how arguments are given ---------------------------------------------------------------


def test_a_call_must_have_what_the_function_needs_and_nothing_else(
    stoker: Harness, app: Stoker
) -> None:
    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    refused: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((1,), {}, "missing a required argument: 'b'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"b": 2, "c": 3}, "got an unexpected keyword argument 'c'"),
        ((1, 2), {"a": 3}, "multiple values for argument 'a'"),
    ]
    for args, kwargs, complaint in refused:
        with pytest.raises(BadInput, match=f"'add' cannot be called like this: {complaint}"):
            add.enqueue(*args, **kwargs)
    assert stoker.jobs() == []


def test_a_default_is_the_functions_own_when_it_runs(stoker: Harness, app: Stoker) -> None:
    @app.task(name="price")
    def price(net: int, rate: int = 19) -> int:
        return net + net * rate // 100

    old, fixed = price.enqueue(100), price.enqueue(100, 7)
    price.__wrapped__.__defaults__ = (20,)
    stoker.drain()
    assert (old.result, fixed.result) == (120, 107)


def test_any_number_of_arguments_can_be_passed_on(stoker: Harness, app: Stoker) -> None:
    @app.task
    def note(first: int, *rest: int, **named: str) -> list[Any]:
        return [first, rest, named]

    plain, full = note.enqueue(1), note.enqueue(1, 2, 3, a="x", b="y")
    stoker.drain()
    assert plain.result == [1, [], {}]
    assert full.result == [1, [2, 3], {"a": "x", "b": "y"}]
    with pytest.raises(BadInput, match=r"Expected `int`, got `str` - at `\$.rest\[0\]`"):
        note.enqueue(1, "2")  # type: ignore[arg-type]


def test_positional_only_and_keyword_only_parameters_are_honoured(
    stoker: Harness, app: Stoker
) -> None:
    @app.task(name="note")
    def note(first: int, /, second: int = 2, *, third: int = 3) -> list[int]:
        return [first, second, third]

    one, all_three = note.enqueue(1), note.enqueue(1, second=20, third=30)
    stoker.drain()
    assert (one.result, all_three.result) == ([1, 2, 3], [1, 20, 30])
    with pytest.raises(BadInput, match="cannot be called like this"):
        note.enqueue(1, 2, 3)  # type: ignore[call-arg]


# -- what a function may ask for -----------------------------------------------------------


def test_a_context_is_no_argument(stoker: Harness, app: Stoker) -> None:
    @app.task
    def tell(name: str, ctx: Context | None = None) -> str:
        return f"{name} {ctx.attempt if ctx else 'here'}"

    job = tell.enqueue("try")
    assert job.job.payload == b'{"name":"try"}'
    stoker.drain()
    assert (job.result, tell("run")) == ("try 1", "run here")


def test_a_context_stands_anywhere_among_named_parameters(stoker: Harness, app: Stoker) -> None:
    @app.task
    def tell(ctx: Context, name: str) -> list[Any]:
        return [ctx.job.id, name]

    job = tell.enqueue(name="ann")
    stoker.drain()
    assert job.result == [job.id, "ann"]


def test_a_context_stands_last_where_arguments_go_by_their_place(
    stoker: Harness, app: Stoker
) -> None:
    @app.task
    def tell(first: int, /, *rest: int, ctx: Context) -> list[int]:
        return [first, *rest, ctx.attempt]

    job = tell.enqueue(7, 8)  # type: ignore[call-arg]
    stoker.drain()
    assert job.result == [7, 8, 1]

    def wrong(ctx: Context, *rest: int) -> None: ...

    with pytest.raises(BadInput, match=r"'ctx' must be keyword-only: put it last, behind a \*"):
        app.task(wrong)


def test_a_hint_that_cannot_be_resolved_is_refused_when_the_task_is_made(app: Stoker) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = "Missing"
    with pytest.raises(BadInput, match=r"a type hint of .*take cannot be resolved: .*'Missing'"):
        app.task(take)


@pytest.mark.parametrize("kind", [Point | Order, JobHandle])
def test_a_type_that_cannot_travel_is_refused_when_the_task_is_made(app: Stoker, kind: Any) -> None:
    with pytest.raises(BadInput, match="'take' has a parameter that cannot travel as JSON"):
        taking(app, kind)
