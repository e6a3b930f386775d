"""`stoker enqueue`: with an app, and with just a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.client import Stoker
from stoker.desk import Desk
from stoker.doors.cli.words import read_arguments, read_moment
from stoker.errors import BadInput
from stoker.kernel.job import Format, Job
from stoker.kernel.window import parse_windows
from stoker.store import Filter
from stoker.store.open import open_store
from tests.cli.conftest import Cli, lines

MINUTE = 60_000_000


def stored(place: Path) -> list[Job]:
    store = open_store("sqlite:///jobs.db")
    try:
        return store.find(Filter())
    finally:
        store.close()


# --- With an app ---------------------------------------------------------------------------------


def test_a_task_gets_its_arguments_by_name(cli: Cli, shop: Path) -> None:
    result = cli("enqueue", "--app", "shop:app", "shop.welcome", "user=7", "lang=de")
    assert result.stdout == "job 1 is enqueued\n"
    (job,) = stored(shop)
    assert (job.queue, job.name, job.payload) == ("mail", "shop.welcome", b'{"user":7,"lang":"de"}')


@pytest.mark.parametrize(
    ("words", "payload"),
    [
        (["7"], b'{"user":7}'),
        (["7", "lang=de"], b'{"user":7,"lang":"de"}'),
        (['{"user": 7}'], b'{"user":7}'),
        (['[7, "de"]'], b'{"user":7,"lang":"de"}'),
        (["--payload", '{"user": 7}'], b'{"user":7}'),
    ],
)
def test_arguments_may_be_written_in_many_ways(
    cli: Cli, shop: Path, words: list[str], payload: bytes
) -> None:
    assert cli("enqueue", "--app", "shop:app", "shop.welcome", *words).exit_code == 0
    assert [job.payload for job in stored(shop)] == [payload]


def test_arguments_that_do_not_fit_are_refused_before_anything_is_stored(
    cli: Cli, shop: Path
) -> None:
    result = cli("enqueue", "--app", "shop:app", "shop.welcome", "user=ann")
    assert result.exit_code == 2
    assert "Expected `int`, got `str` - at `$.user`" in result.stderr
    assert stored(shop) == []


def test_a_task_that_there_is_not_tells_which_there_are(cli: Cli, shop: Path) -> None:
    result = cli("enqueue", "--app", "shop:app", "shop.welcom")
    assert result.exit_code == 2
    known = "shop.approve, shop.report, shop.stamp, shop.swallow, shop.welcome"
    assert f"known: {known}\n" in result.stderr


def test_a_call_without_an_argument_is_told_nothing_about_json(cli: Cli, shop: Path) -> None:
    result = cli("enqueue", "--app", "shop:app", "shop.welcome", "lang=de")
    assert result.exit_code == 2
    assert result.stderr.endswith("missing a required argument: 'user'\n")


def test_options_are_those_of_the_job(cli: Cli, shop: Path) -> None:
    words = ["--queue", "slow", "--rank", "5", "--key", "ann", "--unique", "u7", "--delay", "5m"]
    assert cli("enqueue", "--app", "shop:app", "shop.welcome", "7", *words).exit_code == 0
    (job,) = stored(shop)
    assert (job.queue, job.rank, job.key) == ("slow", 5, "ann")
    assert job.unique_key == "shop.welcome:u7"
    assert 4 * MINUTE < job.due_at - job.created_at <= 5 * MINUTE


@pytest.mark.parametrize("where", [["--app", "shop:app"], ["--store", "sqlite:///jobs.db"]])
def test_weight_and_windows_are_those_of_the_job(cli: Cli, shop: Path, where: list[str]) -> None:
    words = ["--weight", "0.5", "--windows", "22:00-06:00 in Europe/Berlin", "--at"]
    moment = "2030-01-01T12:00Z"
    result = cli("enqueue", *where, "shop.welcome", "user=7", *words, moment)
    assert result.exit_code == 0, result.output
    (job,) = stored(shop)
    assert job.weight == 500
    assert job.policy.windows == parse_windows("22:00-06:00 in Europe/Berlin")
    assert job.due_at == read_moment("2030-01-01T22:00+01:00")


@pytest.mark.parametrize("where", [["--app", "shop:app"], ["--store", "sqlite:///jobs.db"]])
def test_a_task_without_a_name_is_none(cli: Cli, shop: Path, where: list[str]) -> None:
    result = cli("enqueue", *where, "", "user=7")
    assert result.exit_code == 2
    assert "the name of a task cannot be empty" in result.stderr
    assert stored(shop) == []


@pytest.mark.parametrize("where", [["--app", "shop:app"], ["--store", "sqlite:///jobs.db"]])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--weight", "-1"], "weight must be a number from 0 to 1,000,000,000, not -1.0"),
        (["--weight", "inf"], "weight must be a number from 0 to 1,000,000,000, not inf"),
        (["--weight", "heavy"], "Invalid value for '--weight'"),
        (["--weight", "0.0001"], "finer than a thousandth"),
        (["--rank", str(2**63)], "rank must be a whole number from"),
        (["--windows", "noon"], 'cannot read "noon" in the windows'),
        (["--queue", ""], "queue cannot be empty; give a text, or leave it out"),
        (["--key", ""], "key cannot be empty; give a text, or leave it out"),
        (["--unique", ""], "unique cannot be empty; give a word, or leave it out"),
        (["--delay", ""], "cannot read the duration ''"),
        (["--at", ""], "cannot read the time ''"),
        (["--once-per", "", "--unique", "u"], "cannot read the duration ''"),
        (["--windows", ""], 'no times given: write windows like "mon-fri'),
    ],
)
def test_weight_and_windows_that_cannot_be_meant_are_refused(
    cli: Cli, shop: Path, where: list[str], words: list[str], told: str
) -> None:
    result = cli("enqueue", *where, "shop.welcome", "user=7", *words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert stored(shop) == []


def test_a_moment_may_be_given_with_its_zone(cli: Cli, shop: Path) -> None:
    moment = "2030-01-01T01:00+01:00"
    cli("enqueue", "--app", "shop:app", "shop.welcome", "7", "--at", moment)
    assert [job.due_at for job in stored(shop)] == [1_893_456_000_000_000]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--at", "2030-01-01T01:00"], "has no zone; write 2030-01-01T01:00Z for UTC"),
        (["--at", "tomorrow"], "cannot read the time 'tomorrow'"),
        (["--delay", "soon"], "cannot read the duration 'soon'"),
        (["--delay", "1m", "--at", "2030-01-01T01:00Z"], "say --delay or --at, not both"),
        (["--at", "9999-12-31T23:59-12:00"], "out of reach; give one from the year 2 to 9998"),
        (["--at", "0001-01-01T00:00+14:00"], "out of reach; give one from the year 2 to 9998"),
        (["--delay", "3640000d"], "longer than 1,000 years: give a shorter one"),
        (["--count", "0"], "Invalid value for '--count'"),
        (["--timeout", "1s"], "--timeout is for --wait"),
        (["--payload", "@gone.json"], "cannot read the payload from gone.json"),
    ],
)
def test_words_that_cannot_be_used_are_refused(
    cli: Cli, shop: Path, words: list[str], told: str
) -> None:
    arguments = [] if "--payload" in words else ["7"]
    result = cli("enqueue", "--app", "shop:app", "shop.welcome", *arguments, *words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert stored(shop) == []


def test_a_raw_task_gets_the_bytes_as_they_are(cli: Cli, shop: Path) -> None:
    (shop / "data.bin").write_bytes(b"\x00\xff{")
    cli("enqueue", "--app", "shop:app", "shop.swallow", "--payload", "@data.bin")
    cli("enqueue", "--app", "shop:app", "shop.swallow", "--payload", "-", stdin=b"\xfe")
    assert [(job.payload, job.format) for job in stored(shop)] == [
        (b"\x00\xff{", Format.BYTES),
        (b"\xfe", Format.BYTES),
    ]


def test_a_task_for_text_refuses_what_is_none(cli: Cli, shop: Path) -> None:
    with (shop / "shop.py").open("a", encoding="utf-8") as file:
        file.write("\n@app.task(raw=True)\ndef read(text: str) -> None: ...\n")
    words = ["enqueue", "--app", "shop:app", "shop.read", "--payload", "-"]
    assert cli(*words, stdin="süß").exit_code == 0
    refused = cli(*words, stdin=b"\xff")
    assert refused.exit_code == 2
    assert "this task takes text, and the payload is none" in refused.stderr
    assert [(job.payload, job.format) for job in stored(shop)] == [("süß".encode(), Format.TEXT)]


def test_many_at_once_are_told_as_a_range(cli: Cli, shop: Path) -> None:
    result = cli("enqueue", "--app", "shop:app", "shop.welcome", "7", "--count", "1200")
    assert result.stdout == "1,200 jobs are enqueued, from 1 to 1200\n"


def test_waiting_prints_the_result(cli: Cli, shop: Path) -> None:
    app = Stoker("sqlite:///jobs.db")

    @app.task(name="double", queue="math")
    def double(number: int) -> int:
        return 2 * number

    worker = app.worker(chores=False)
    worker.start()
    try:
        words = ["--queue", "math", "number=21", "--wait", "--timeout", "60s"]
        result = cli("enqueue", "--store", "sqlite:///jobs.db", "double", *words)
        assert (result.exit_code, result.stdout) == (0, "42\n")
        told = lines(cli("enqueue", "--store", "sqlite:///jobs.db", "double", *words, "--json"))
        assert told == [{"id": 2, "fresh": True, "result": 42}]
        words[1:3] = ["math", "number=x"]
        failed = cli("enqueue", "--store", "sqlite:///jobs.db", "double", *words)
        assert failed.exit_code == 1
        assert "job 3 is FAILED" in failed.stderr
    finally:
        worker.stop()
        app.close()


def test_waiting_in_vain_ends_with_the_timeout(cli: Cli, shop: Path) -> None:
    result = cli("enqueue", "--app", "shop:app", "shop.welcome", "7", "--wait", "--timeout", "0s")
    assert result.exit_code == 1
    assert "job 1 is still QUEUED; it goes on all the same" in result.stderr


# --- With just a store ---------------------------------------------------------------------------


def test_a_store_that_is_not_there_is_made(cli: Cli, place: Path) -> None:
    result = cli("enqueue", "--store", "sqlite:///jobs.db", "import", "path=/x", "size=3")
    assert result.exit_code == 0
    (job,) = stored(place)
    assert (job.queue, job.name) == ("default", "import")
    assert job.payload == b'{"path":"/x","size":3}'


@pytest.mark.parametrize(
    ("words", "payload", "kind"),
    [
        ([], b"{}", Format.JSON),
        (["1", "two"], b'[1,"two"]', Format.JSON),
        (["--payload", ' {"a" : 1}'], b' {"a" : 1}', Format.JSON),
        (["--payload", "no { json", "--raw"], b"no { json", Format.BYTES),
    ],
)
def test_the_payload_is_stored_as_given(
    cli: Cli, place: Path, words: list[str], payload: bytes, kind: Format
) -> None:
    assert cli("enqueue", "--store", "sqlite:///jobs.db", "ping", *words).exit_code == 0
    assert [(job.payload, job.format) for job in stored(place)] == [(payload, kind)]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["1", "a=2"], "nobody knows the names of positional arguments"),
        (["--payload", "{"], "the payload cannot be used; this is no JSON"),
        (["a=1", "--payload", "{}"], "give arguments or a --payload, not both"),
        (["--raw"], "--raw needs a --payload"),
    ],
)
def test_a_payload_nobody_could_read_is_refused(
    cli: Cli, jobs: Desk, words: list[str], told: str
) -> None:
    result = cli("enqueue", "ping", *words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert jobs.store.find(Filter()) == []


def test_a_unique_job_is_the_same_whether_an_app_or_a_store_was_named(cli: Cli, shop: Path) -> None:
    cli("enqueue", "--app", "shop:app", "shop.welcome", "7", "--unique", "u7")
    again = cli("enqueue", "--store", "sqlite:///jobs.db", "shop.welcome", "--unique", "u7")
    assert (again.exit_code, again.stdout) == (
        0,
        "job 1 is there already, with the same unique key\n",
    )
    told = cli(
        "enqueue", "--store", "sqlite:///jobs.db", "shop.welcome", "--unique", "u7", "--json"
    )
    assert lines(told) == [{"id": 1, "fresh": False}]
    other = cli("enqueue", "--store", "sqlite:///jobs.db", "shop.welcome:u7", "--unique", "u7")
    assert other.stdout == "job 2 is enqueued\n"
    other = cli("enqueue", "--store", "sqlite:///jobs.db", "shop.welcome", "--unique", "u7:u7")
    assert other.stdout == "job 3 is enqueued\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ([], {})),
        (["a=1", "b=x y", "c=[1]"], ([], {"a": 1, "b": "x y", "c": [1]})),
        (["a=b=c"], ([], {"a": "b=c"})),
        (["01234", "true", "null", '"7"'], (["01234", True, None, "7"], {})),
        (["1=2"], (["1=2"], {})),
        (["x=", "-5"], ([-5], {"x": ""})),
        (['{"a": 1}', "b=2"], ([{"a": 1}], {"b": 2})),
    ],
)
def test_words_become_arguments(
    words: list[str], expected: tuple[list[Any], dict[str, Any]]
) -> None:
    assert read_arguments(words) == expected


def test_a_moment_needs_no_seconds_but_a_zone() -> None:
    assert read_moment("1970-01-01T00:01Z") == MINUTE
    with pytest.raises(BadInput, match="has no zone"):
        read_moment("1970-01-01T00:01:00")


# --- At a pace -----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [["--app", "shop:app"], ["--store", "sqlite:///jobs.db"]])
def test_the_first_of_a_period_stands_for_the_others(
    cli: Cli, shop: Path, where: list[str]
) -> None:
    once = ["enqueue", *where, "shop.welcome", "--unique", "u7", "--once-per", "10m"]
    assert cli(*once, "user=1").stdout == "job 1 is enqueued\n"
    assert "job 1 is there already" in cli(*once, "user=2").stdout
    assert [job.payload for job in stored(shop)] == [b'{"user":1}']


@pytest.mark.parametrize("where", [["--app", "shop:app"], ["--store", "sqlite:///jobs.db"]])
def test_the_last_counts_and_is_put_off(cli: Cli, shop: Path, where: list[str]) -> None:
    calm = ["enqueue", *where, "shop.welcome", "--unique", "u7"]
    calm += ["--debounce", "5m", "--at-most", "1h"]
    for user in (1, 2):
        assert cli(*calm, f"user={user}").exit_code == 0
    (job,) = stored(shop)
    assert (job.payload, job.due_at >= job.created_at + 5 * MINUTE) == (b'{"user":2}', True)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (["--once-per", "1m"], "needs a unique key"),
        (["--unique", "u", "--at-most", "1m"], "say both"),
        (["--unique", "u", "--debounce", "1m", "--delay", "1m"], "leave out the delay"),
        (["--unique", "u", "--debounce", "1m", "--count", "2"], "leave out --count"),
    ],
)
def test_a_pace_that_makes_no_sense_is_refused(
    cli: Cli, shop: Path, said: list[str], words: str
) -> None:
    for where in (["--app", "shop:app"], ["--store", "sqlite:///jobs.db"]):
        result = cli("enqueue", *where, "shop.welcome", "user=7", *said)
        assert (result.exit_code != 0, words in result.stderr) == (True, True)
    assert stored(shop) == []
