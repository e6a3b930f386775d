"""The command line as a program among others: processes, signals, pipes and a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

import stoker

SOURCE = str(Path(stoker.__file__).parents[1])
PATIENCE = 60
CTRL_C = "Ctrl-C"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def env() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STOKER_")}
    return {**kept, "PYTHONPATH": SOURCE, "TERM": "xterm", "COLUMNS": "120"}


@pytest.fixture
def start(shop: Path, env: dict[str, str]) -> Iterator[Start]:
    """Start a command beside the app; whatever still runs in the end is killed."""
    begun: list[subprocess.Popen[str]] = []

    def run(*words: str, stdin: int | None = subprocess.DEVNULL) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "stoker", *words],
            cwd=shop,
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield run
    for process in begun:
        process.kill()
        process.communicate()


def done(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def read_until(stream: IO[str], text: str) -> list[str]:
    """Lines up to the one that has the text."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} never came; there was {lines}")


def test_a_worker_does_what_is_enqueued_and_ends_when_it_is_told(start: Start) -> None:
    worker = start("worker", "shop:app", "--name", "w", "--processes", "2", "--concurrency", "3")
    assert worker.stderr is not None
    read_until(worker.stderr, "serving mail, raw, reports with 2 processes")
    told = start("enqueue", "--app", "shop:app", "shop.welcome", "7", "--wait", "--timeout", "50s")
    assert done(told) == (0, '"hello 7 (en)"\n', "")
    failed = start("enqueue", "--app", "shop:app", "shop.welcome", "--wait", "--", "-1")
    code, _, error = done(failed)
    assert code == 1
    assert error == "stoker: error: job 3 is FAILED: ConnectionError: nobody lives here\n"
    _, out, _ = done(start("workers", "--app", "shop:app", "--json"))
    workers = [json.loads(line) for line in out.splitlines()]
    assert workers[0]["name"] in ("w-1", "w-2")
    assert (workers[0]["alive"], workers[0]["concurrency"]) == (True, 3)
    worker.send_signal(signal.SIGTERM)
    assert done(worker)[0] == 0
    assert done(start("workers", "--app", "shop:app", "--json"))[:2] == (0, "")


def test_run_tells_about_each_job_until_ctrl_c(start: Start) -> None:
    runner = start("run", "shop:app", "--queues", "mail")
    assert runner.stderr is not None and runner.stdout is not None
    greeting = "".join(read_until(runner.stderr, "tasks:"))
    assert "shop:app serves mail of sqlite:///jobs.db; Ctrl-C ends it\n" in greeting
    approve = start("enqueue", "--app", "shop:app", "shop.approve", '"17"', "--wait")
    read_until(runner.stdout, "shop.approve")
    waits = read_until(runner.stdout, "waits")[-1]
    assert waits.endswith("for the reply 'order-17'\n")
    replied = done(start("reply", "order-17", '"yes"', "--app", "shop:app"))
    assert replied == (0, "delivered: the job that waited for it goes on\n", "")
    assert done(approve) == (0, '"yes"\n', "")
    assert read_until(runner.stdout, "finished")[-1].endswith('→ "yes"\n')
    runner.send_signal(signal.SIGINT)
    code, _, error = done(runner)
    assert (code, error) == (0, "ending; Ctrl-C again to end at once\n")


def test_run_tells_about_jobs_in_other_processes(start: Start) -> None:
    runner = start("run", "shop:app", "--queues", "mail", "--concurrency", "1")
    assert runner.stdout is not None
    assert done(start("enqueue", "--app", "shop:app", "shop.stamp", "21"))[0] == 0
    begun, ended = read_until(runner.stdout, "finished")
    assert "started " in begun and begun.endswith("shop.stamp\n")
    assert ended.endswith("→ 42\n")


def test_a_worker_that_cannot_work_says_why(start: Start, shop: Path) -> None:
    (shop / "private.py").write_text(
        "from stoker import Stoker\napp = Stoker('memory:')\n", encoding="utf-8"
    )
    cases = {
        ("worker", "shop:app", "--concurrency", "0"): "concurrency must be from 1 to 1000, not 0",
        ("worker", "shop:app", "--ttl", "nan"): "ttl must be from 1 to 31,536,000 seconds, not nan",
        ("worker", "shop:app", "--grace", "-5"): "grace must be from 0 to 31,536,000 seconds",
        ("worker", "shop:app", "--within", "nan"): "nan is no number to reckon with",
        ("worker", "gone:app"): "there is no module 'gone'",
        ("worker", "private:app"): "the jobs of private:app are in memory:",
        ("run", "shop:app", "--store", "sqlite:///x.db"): "shop:app names its store itself",
    }
    for words, told in cases.items():
        code, out, error = done(start(*words))
        assert (code, out) == (2, "")
        assert error.startswith("stoker: error: ")
        assert error.count("\n") == 1
        assert told in error


def test_an_app_that_names_no_store_takes_the_one_it_is_given(start: Start, shop: Path) -> None:
    source = (shop / "shop.py").read_text(encoding="utf-8")
    open_app = source.replace('Stoker("sqlite:///jobs.db")', "Stoker()")
    (shop / "open.py").write_text(open_app, encoding="utf-8")
    worker = start("worker", "open:app", "--store", "sqlite:///given.db", "--queues", "mail")
    words = ("enqueue", "--store", "sqlite:///given.db", "open.welcome", "user=7")
    told = start(*words, "--queue", "mail", "--wait", "--timeout", "50s")
    assert done(told) == (0, '"hello 7 (en)"\n', "")
    worker.send_signal(signal.SIGTERM)
    assert done(worker)[0] == 0


def test_what_goes_into_a_pipe_is_neither_coloured_nor_cut_off(start: Start) -> None:
    name = "n" * 300
    start("enqueue", "--store", "sqlite:///jobs.db", name).communicate()
    code, out, _ = done(start("jobs", "list", "--store", "sqlite:///jobs.db"))
    assert code == 0
    assert f"  {name}  " in out
    assert "\x1b" not in out


def test_a_reader_that_leaves_early_is_no_error(start: Start) -> None:
    start("enqueue", "--store", "sqlite:///jobs.db", "x", "--count", "5000").communicate()
    words = ("jobs", "list", "--store", "sqlite:///jobs.db", "--limit", "5000", "--json")
    process = start(*words)
    assert process.stdout is not None and process.stderr is not None
    assert json.loads(process.stdout.readline())["id"] == 1
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait(PATIENCE)


def at_a_terminal(shop: Path, env: dict[str, str], words: list[str], see: str, press: str) -> str:
    """Run a command at a terminal, wait for some text, press a key, and see all that was drawn.

    It is not the terminal of a session, so what Ctrl-C does there is done by hand.
    """
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "stoker", *words]
    process = subprocess.Popen(
        command, cwd=shop, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    drawn = b""
    try:
        while select.select([ours], [], [], PATIENCE)[0]:
            try:
                drawn += os.read(ours, 65536)
            except OSError:
                break  # it has ended, and the terminal with it
            if see.encode() in drawn and press == CTRL_C:
                process.send_signal(signal.SIGINT)
                press = ""
            elif see.encode() in drawn and press:
                os.write(ours, press.encode())
                press = ""
        assert process.wait(PATIENCE) == 0, drawn
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return drawn.decode()


@pytest.mark.parametrize("key", ["q", CTRL_C])
def test_top_watches_at_a_terminal_until_q_or_ctrl_c(
    start: Start, shop: Path, env: dict[str, str], key: str
) -> None:
    start("enqueue", "--app", "shop:app", "shop.welcome", "7", "--count", "3").communicate()
    drawn = at_a_terminal(shop, env, ["top", "--app", "shop:app"], "ended/s", key)
    assert "\x1b[?1049h" in drawn  # the screen it drew on ...
    assert "\x1b[?1049l" in drawn.partition("ended/s")[2]  # ... was given back


def test_a_terminal_gets_colour_unless_it_wants_none(
    start: Start, shop: Path, env: dict[str, str]
) -> None:
    start("enqueue", "--app", "shop:app", "shop.welcome", "7").communicate()
    start("jobs", "cancel", "1", "--app", "shop:app").communicate()
    start("schedule", "list", "--app", "shop:app").communicate()
    words = ["check", "--app", "shop:app"]
    (shop / "jobs.db").chmod(0o644)
    yellow = "\x1b[33m"
    assert yellow in at_a_terminal(shop, env, words, "disk", "")
    assert yellow not in at_a_terminal(shop, {**env, "NO_COLOR": "1"}, words, "disk", "")


def test_a_purge_at_a_terminal_asks_for_the_name(
    start: Start, shop: Path, env: dict[str, str]
) -> None:
    start("enqueue", "--app", "shop:app", "shop.welcome", "7", "--count", "3").communicate()
    words = ["queues", "purge", "mail", "--app", "shop:app"]
    drawn = at_a_terminal(shop, env, words, "type mail to go on: ", "mail\r")
    assert "3 jobs deleted" in drawn
