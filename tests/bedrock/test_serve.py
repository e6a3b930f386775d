"""`stoker serve`: what it takes, what it refuses, and how it ends."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker.doors import porter
from stoker.doors.addresses import is_loopback
from stoker.doors.cli.root import root
from stoker.doors.cli.serve import read_address
from tests.bedrock.conftest import Serve
from tests.bedrock.wire import PATIENCE, Server, eventually


def refused(*words: str) -> str:
    """What it says to words it cannot use."""
    result = CliRunner().invoke(root, ["serve", "--store", "memory:", *words], prog_name="stoker")
    assert result.exit_code == 2, result.output
    return result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no door was named: say --http 127.0.0.1:8080 or --bedrock"),
        (("--bedrock", "localhost"), "'localhost' is no address"),
        (("--bedrock", "127.0.0.1:http"), "is no address"),
        (("--bedrock", "127.0.0.1:70000"), "is no address"),
        (("--bedrock", f"127.0.0.1:{'9' * 5000}"), "is no address"),
        (("--bedrock", "0.0.0.0:0"), "can be reached by others: set --bedrock-token"),
        (("--bedrock", "[::]:0"), "can be reached by others"),
        (("--bedrock", "example.org:80"), "can be reached by others"),
        (("--bedrock", ":0", "--tls-key", "x"), "--tls-key needs a certificate"),
        (("--bedrock", ":0", "--tls-cert", "gone.pem"), "cannot use gone.pem for TLS"),
        (("--bedrock", ":0", "--tls-cert", __file__), "for TLS"),
    ],
)
def test_what_it_cannot_use_is_refused_with_advice(words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8888", ("127.0.0.1", 8888)),
        ("localhost:0", ("localhost", 0)),
        (":99", ("127.0.0.1", 99)),
        ("99", ("127.0.0.1", 99)),
        ("[::1]:99", ("::1", 99)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert read_address("--x", text) == address
    assert is_loopback(address[0])


def test_an_address_that_is_taken_is_told_of(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["serve", "--store", f"sqlite:///{tmp_path}/jobs.db", "--bedrock", f":{port}"]
        result = CliRunner().invoke(root, words, prog_name="stoker")
    assert result.exit_code == 1
    assert "in use" in result.output


@pytest.mark.parametrize("options", [("--bedrock-token", "x"), ("--insecure",)])
def test_a_token_or_an_operators_word_opens_it_to_others(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    monkeypatch.setattr(porter, "keep_open", lambda _, doors, __: opened.extend(doors))
    words = ["serve", "--store", "memory:", "--bedrock", "0.0.0.0:0", *options]
    assert CliRunner().invoke(root, words, prog_name="stoker").exit_code == 0
    assert len(opened) == 1


def test_jobs_in_memory_are_served_too() -> None:
    server = Server("memory:")
    try:
        wire = server.connect()
        assert wire.ask("CreateJob", name="foo").status == "200 OK"
        assert wire.ask("GetJob", name="foo").status == "200 OK"
        unasked = wire.ask("Query", query="select 1;")
        assert unasked.status == "401 Unauthorized"
        assert "--bedrock-query" in unasked.headers["error"]
    finally:
        server.kill()


def test_it_ends_in_peace_when_it_is_told(serve: Serve) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        server = serve()
        wire = server.connect()
        wire.ask("CreateJob", name="foo")
        server.process.send_signal(number)
        assert server.process.wait(PATIENCE) == 0
        assert wire.ended()


def test_tries_are_counted_as_the_operator_says_and_chores_are_done(serve: Serve) -> None:
    wire = serve("--bedrock-tries", "1").connect()
    job_id = wire.ask("CreateJob", name="foo", jobTimeout=1).json["jobID"]
    wire.ask("GetJob", name="foo")
    eventually(lambda: wire.ask("QueryJob", jobID=job_id).json["state"] == "FAILED")


def test_no_acknowledged_job_is_lost_when_the_server_is_killed(serve: Serve) -> None:
    server = serve()
    wires = [server.connect() for _ in range(10)]
    made: set[int] = set()
    for round_ in range(20):
        for wire in wires:
            wire.send("CreateJob\nname: foo\n\n")
        if round_ == 19:
            server.process.kill()
        for wire in wires:
            try:
                made.add(wire.answer().json["jobID"])
            except (EOFError, ConnectionError):
                assert round_ == 19
    server.process.wait(PATIENCE)
    after = serve().connect()
    found = after.ask("GetJobs", name="foo", numResults=1000).json["jobs"]
    assert made <= {job["jobID"] for job in found}
