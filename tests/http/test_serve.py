"""`stoker serve --http` as an operator and clients in other processes meet it."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from click.testing import CliRunner

from stoker.desk import Desk
from stoker.doors.cli.root import root
from stoker.doors.http import office
from stoker.store.open import open_store
from tests.http.client import PATIENCE, Answer, Server, answer_on, opened
from tests.http.conftest import Serve


def in_background(work: Callable[[], Answer]) -> Callable[[], Answer]:
    """Do something in a thread; call what comes back for the answer."""
    future = ThreadPoolExecutor(1).submit(work)
    return lambda: future.result(PATIENCE)


def waits(server: Server, queues: list[str], **terms: object) -> Callable[[], Answer]:
    """A claim that is on its way when this returns."""
    connection = server.connect()
    wish = {"queues": queues, "wait": 50, **terms}
    connection.request("POST", "/v1/claims", msgspec.json.encode(wish))
    # One that came later, and does not wait, has been answered: so the first one waits.
    server.done("POST", "/v1/claims", {"queues": ["nothing"]})
    return in_background(lambda: answer_on(connection))


def test_a_claim_that_waits_is_woken_by_a_job_from_another_process(serve: Serve) -> None:
    here, there = serve(), serve()
    answer = waits(here, ["mail-*"])
    placed = there.done("POST", "/v1/jobs", {"queue": "mail-1", "payload": 7})
    (job,) = answer().json["jobs"]
    assert (job["id"], job["payload"]) == (placed["id"], 7)


def test_it_is_the_bell_that_wakes_and_not_a_look_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(office, "_LOOK_AROUND", 1e6)
    url = f"sqlite:///{tmp_path / 'jobs.db'}?sync=normal"
    store = open_store(url)
    with opened(Desk(store)) as api:
        answer = in_background(lambda: api.post("/v1/claims", {"queues": ["q"], "wait": 50}))
        put = (sys.executable, "-m", "stoker", "enqueue", "--store", url, "--queue", "q", "n")
        subprocess.run(put, check=True, capture_output=True)
        assert [job["name"] for job in answer().json["jobs"]] == ["n"]
    store.close()


def test_a_claim_that_waits_is_woken_when_a_job_falls_due(serve: Serve) -> None:
    server = serve()
    server.done("POST", "/v1/jobs", {"queue": "q", "delay": 0.3})
    answer = waits(server, ["q"])
    assert len(answer().json["jobs"]) == 1


def test_a_stopped_server_answers_those_who_wait_and_ends(serve: Serve) -> None:
    server = serve()
    answers = [waits(server, ["q"]), waits(server, ["r"])]
    looking = server.connect()
    placed = server.done("POST", "/v1/jobs", {"queue": "s"})
    look = in_background(
        lambda: server.ask("GET", f"/v1/jobs/{placed['id']}?wait=50s", over=looking)
    )
    server.stop()
    assert [answer().json for answer in answers] == [{"jobs": []}, {"jobs": []}]
    assert look().json["state"] == "QUEUED"


def test_a_client_that_goes_away_leaves_its_place_in_line(serve: Serve) -> None:
    server = serve()
    gone = server.connect()
    gone.request("POST", "/v1/claims", b'{"queues": ["q"], "wait": 50}')
    answer = waits(server, ["q"])
    gone.close()
    placed = server.done("POST", "/v1/jobs", {"queue": "q"})
    assert [job["id"] for job in answer().json["jobs"]] == [placed["id"]]


def test_the_job_of_a_client_that_was_killed_goes_to_another(serve: Serve) -> None:
    server = serve()
    placed = server.done("POST", "/v1/jobs", {"queue": "q"})
    code = (
        "import json, os, signal, urllib.request as web\n"
        "wish = json.dumps({'queues': ['q'], 'visibility': 1}).encode()\n"
        f"request = web.Request('{server.base}/v1/claims', wish)\n"
        "assert json.load(web.urlopen(request))['jobs']\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    wish = {"queues": ["q"], "wait": 30}
    (job,) = server.ask("POST", "/v1/claims", wish).json["jobs"]
    assert (job["id"], job["crashes"], job["attempt"]) == (placed["id"], 1, 2)


def test_what_was_acknowledged_is_there_after_a_server_was_killed(serve: Serve) -> None:
    server = serve()
    refs = [server.done("POST", "/jobber/queue", {"type": "t"})["job-id"] for _ in range(20)]
    waiting = waits(server, ["nothing"])
    server.process.kill()
    server.process.wait()
    with pytest.raises(ConnectionError):
        waiting()
    jobs = serve().done("POST", "/v1/claims", {"queues": ["job_queue_t"], "limit": 100})["jobs"]
    assert [job["ref"] for job in jobs] == refs


def test_http_and_the_line_protocol_can_be_served_by_one_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}?sync=normal"
    server = Server(url, "--bedrock", "127.0.0.1:0")
    try:
        assert server.ask("GET", "/health").status == 200
        assert server.process.stdout is not None
        assert "bedrock on 127.0.0.1:" in server.process.stdout.readline()
        server.stop()
    finally:
        server.kill()


def test_it_can_be_served_over_tls(serve: Serve, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    server = serve("--tls-cert", str(tmp_path / "server.pem"))
    connection = server.connect(context)
    assert server.ask("POST", "/jobber/queue", {"type": "t"}, over=connection).status == 201


def test_head_is_answered_like_get_without_a_body(serve: Serve) -> None:
    server = serve()
    answer = server.ask("HEAD", "/health")
    assert (answer.status, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_one_connection_serves_many_requests_one_after_the_other(serve: Serve) -> None:
    server = serve()
    connection = server.connect()
    ids = []
    for _ in range(5):
        connection.request("POST", "/v1/jobs", b'{"queue": "q"}')
        ids.append(answer_on(connection).json["id"])
    assert ids == [1, 2, 3, 4, 5]


# -- tokens and addresses ------------------------------------------------------------------


def cli(*words: str) -> Any:
    return CliRunner().invoke(root, words, prog_name="stoker")


def test_an_address_that_others_reach_needs_a_token_or_a_word(tmp_path: Path) -> None:
    store = ("--store", f"sqlite:///{tmp_path / 'jobs.db'}")
    refused = cli("serve", *store, "--http", "0.0.0.0:0")
    assert refused.exit_code == 2
    assert "stoker token add" in refused.output
    assert "--insecure" in refused.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--http", "localhost"), "is no address"),
        (("--http", ":0", "--http-callbacks", "example.com"), "https://hooks.example.com/"),
        (("--http", ":0", "--http-callbacks", "https://example.com"), "up to a slash"),
    ],
)
def test_what_it_cannot_use_is_refused_with_advice(words: tuple[str, ...], why: str) -> None:
    refused = cli("serve", "--store", "memory:", *words)
    assert (refused.exit_code, why in refused.output) == (2, True), refused.output


def test_an_address_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = cli("serve", "--store", "memory:", "--http", address)
    assert (refused.exit_code, f"cannot listen on {address}" in refused.output) == (2, True)


def test_tokens_are_made_listed_and_removed_and_a_running_server_hears_of_it(
    serve: Serve, tmp_path: Path
) -> None:
    store = ("--store", f"sqlite:///{tmp_path / 'jobs.db'}?sync=normal")
    server = serve()
    assert server.ask("GET", "/v1/stats").status == 200
    token = cli("token", "add", "ops", "--scope", "operate", "--rate", "100", *store).output.strip()
    assert "ops" in cli("token", "list", *store).output
    assert cli("token", "add", "ops", "--scope", "operate", *store).exit_code == 2
    headers = {"Authorization": f"Bearer {token}"}
    _until(lambda: server.ask("GET", "/v1/stats").status == 401)
    assert server.ask("GET", "/v1/stats", headers=headers).status == 200
    assert server.ask("POST", "/v1/jobs", {"queue": "q"}, headers=headers).status == 403
    assert cli("token", "remove", "ops", *store).exit_code == 0
    assert cli("token", "remove", "ops", *store).exit_code == 3
    assert "no tokens" in cli("token", "list", *store).output
    _until(lambda: server.ask("GET", "/v1/stats").status == 200)


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_address_that_others_reach_is_served_to_those_with_a_token(
    serve: Serve, tmp_path: Path
) -> None:
    store = ("--store", f"sqlite:///{tmp_path / 'jobs.db'}?sync=normal")
    token = cli("token", "add", "a", "--scope", "enqueue", *store).output.strip()
    server = serve(address="0.0.0.0:0")
    headers = {"Authorization": f"Bearer {token}", "Host": "jobs.example.com"}
    assert server.ask("POST", "/v1/jobs", {"queue": "q"}, headers=headers).status == 201
    assert server.ask("POST", "/v1/jobs", {"queue": "q"}).status == 401
