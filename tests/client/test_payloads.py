"""Payloads that no task wrote: from other languages, raw, or for nobody."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from stoker import Context, Format, Job, State, Stoker
from stoker.client.task import Task
from stoker.errors import BadInput
from stoker.testing import Harness


@pytest.fixture
def add(app: Stoker) -> Task[[int, int], int]:
    @app.task(name="add")
    def add(a: int, b: int = 10) -> int:
        return a + b

    return add


Add = Task[[int, int], int]


def put(app: Stoker, name: str, payload: bytes, **facts: Any) -> int:
    """A job as somebody else would enqueue it."""
    return app.desk.intake.enqueue(Job("default", name, payload, **facts)).id


def outcome(stoker: Harness, job_id: int) -> Any:
    """The result of a job, or its first line of error."""
    stoker.drain()
    job = stoker.app.job(job_id).job
    return stoker.app.job(job_id).result if job.state is State.FINISHED else str(job.error)


# -- JSON from elsewhere -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "result"),
    [
        (b'{"a": 1, "b": 2}', 3),
        (b'  {"b": 2,\n "a": 1}  ', 3),
        (b'{"a": 1}', 11),
        (b"[1, 2]", 3),
        (b" [1]", 11),
    ],
)
def test_a_json_object_or_array_is_a_call(
    stoker: Harness, app: Stoker, add: Add, payload: bytes, result: int
) -> None:
    assert outcome(stoker, put(app, "add", payload)) == result


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (b'{"a": "1"}', "the arguments do not fit the task 'add': Expected `int`, got `str`"),
        (b'{"b": 1}', "missing required field `a`"),
        (b'{"a": 1, "c": 2}', "contains unknown field `c`"),
        (b"[1, 2, 3]", "too many positional arguments"),
        (b"7", "Expected `object`, got `int`"),
        (b"null", "missing required field `a`"),
        (b"", "Input data was truncated"),
        (b"{broken", "JSON is malformed"),
        (b"[1,", "the payload is no JSON"),
        (b'{"a": "\xff"}', "the arguments do not fit the task 'add'"),
    ],
)
def test_a_payload_that_cannot_be_called_fails_for_good_and_says_why(
    stoker: Harness, app: Stoker, add: Add, payload: bytes, complaint: str
) -> None:
    job_id = put(app, "add", payload)
    assert complaint in outcome(stoker, job_id)
    job = app.job(job_id).job
    assert (job.state, job.attempt) == (State.FAILED, 1)


@pytest.mark.parametrize("payload", [b"null", b"{}", b"[]", b" {} "])
def test_a_call_without_arguments_can_be_said_in_many_ways(
    stoker: Harness, app: Stoker, payload: bytes
) -> None:
    @app.task(name="none")
    def none() -> str:
        return "none"

    @app.task(name="defaults")
    def defaults(a: int = 1, b: int = 2) -> int:
        return a + b

    assert outcome(stoker, put(app, "none", payload)) == "none"
    assert outcome(stoker, put(app, "defaults", payload)) == 3


def test_arguments_behind_a_gap_keep_their_place(stoker: Harness, app: Stoker) -> None:
    @app.task(name="note")
    def note(a: int, b: int = 2, *rest: int) -> list[int]:
        return [a, b, *rest]

    assert outcome(stoker, put(app, "note", b'{"a": 1, "rest": [5, 6]}')) == [1, 2, 5, 6]


def test_hints_convert_what_another_language_wrote(stoker: Harness, app: Stoker) -> None:
    @app.task(name="year")
    def year(at: datetime) -> int:
        return at.year

    assert outcome(stoker, put(app, "year", b'["2031-02-03T04:05:06Z"]')) == 2031


# -- raw payloads --------------------------------------------------------------------------


def test_raw_bytes_travel_as_they_are(stoker: Harness, app: Stoker) -> None:
    @app.task(raw=True)
    def size(data: bytes) -> list[int]:
        return list(data)

    job = size.enqueue(b"\x00\xff{")
    assert (job.job.payload, job.job.format) == (b"\x00\xff{", Format.BYTES)
    stoker.drain()
    assert job.result == [0, 255, 123]


def test_raw_text_travels_as_it_is(stoker: Harness, app: Stoker) -> None:
    @app.task(raw=True)
    def shout(words: str) -> str:
        return words.upper()

    job = shout.enqueue('grüß "dich"')
    assert (job.job.payload, job.job.format) == ('grüß "dich"'.encode(), Format.TEXT)
    stoker.drain()
    assert job.result == 'GRÜSS "DICH"'


def test_a_raw_task_may_ask_for_its_context_and_have_a_default(
    stoker: Harness, app: Stoker
) -> None:
    @app.task(raw=True)
    def note(ctx: Context, data: bytes = b"nothing") -> list[Any]:
        return [ctx.attempt, data.decode()]

    jobs = [note.enqueue(), note.enqueue(data=b"much")]
    stoker.drain()
    assert [job.result for job in jobs] == [[1, "nothing"], [1, "much"]]


def test_a_raw_task_may_take_its_parameter_by_place_only(stoker: Harness, app: Stoker) -> None:
    @app.task(raw=True)
    def size(data: bytes, /) -> int:
        return len(data)

    job = size.enqueue(b"four")
    stoker.drain()
    assert job.result == 4


@pytest.mark.parametrize(
    ("args", "kwargs", "complaint"),
    [
        (("text",), {}, "takes one bytes, not str"),
        ((), {}, "missing a required argument: 'data'"),
        ((b"a", b"b"), {}, "too many positional arguments"),
        ((), {"other": b"a"}, "missing a required argument: 'data'"),
    ],
)
def test_a_raw_task_takes_exactly_its_one_argument(
    app: Stoker, args: tuple[Any, ...], kwargs: dict[str, Any], complaint: str
) -> None:
    @app.task(raw=True, name="size")
    def size(data: bytes) -> None: ...

    with pytest.raises(BadInput, match=complaint):
        size.enqueue(*args, **kwargs)


def test_text_for_a_raw_task_must_be_text(stoker: Harness, app: Stoker) -> None:
    @app.task(raw=True, name="shout")
    def shout(words: str) -> str:
        return words

    with pytest.raises(BadInput, match=r"'shout' cannot take this: .*surrogates not allowed"):
        shout.enqueue("\ud800")
    error = outcome(stoker, put(app, "shout", b"\xff"))
    assert "the task 'shout' takes text, not bytes" in error


def test_a_raw_task_has_exactly_one_parameter_of_bytes_or_text(app: Stoker) -> None:
    def none() -> None: ...
    def two(a: bytes, b: bytes) -> None: ...
    def number(a: int) -> None: ...
    def many(*a: bytes) -> None: ...

    for function in (none, two, number, many):
        with pytest.raises(BadInput, match="must take exactly one parameter, hinted as bytes or"):
            app.task(raw=True)(function)


# -- tasks that nobody knows ---------------------------------------------------------------


def test_a_job_of_an_unknown_task_is_put_off_and_says_why(stoker: Harness, app: Stoker) -> None:
    job_id = put(app, "nobody.knows", b"{}")
    assert stoker.drain() == 0
    job = app.job(job_id).job
    assert (job.state, job.attempt) == (State.QUEUED, 0)
    assert job.due_at == stoker.clock() + 60_000_000
    assert "nobody.knows" in (job.error or "")


def test_a_job_of_an_unknown_task_runs_once_the_task_is_known(stoker: Harness, app: Stoker) -> None:
    job_id = put(app, "late", b"{}")
    stoker.drain()

    @app.task(name="late")
    def late() -> str:
        return "better than never"

    stoker.clock.advance("1m")
    assert outcome(stoker, job_id) == "better than never"
    assert app.job(job_id).job.error is None
