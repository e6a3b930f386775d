"""Workers in other languages, against a real server: the examples, as they stand."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.architecture.tree import ROOT
from tests.http.client import PATIENCE, Server
from tests.http.conftest import Serve

NODE = ROOT / "examples" / "node_worker" / "worker.mjs"
CURL = ROOT / "examples" / "curl_worker.sh"


@contextmanager
def started(server: Server, *words: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    worker = subprocess.Popen(
        words,
        env={**os.environ, "STOKER_URL": server.base, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate()


def ended(server: Server, job_id: int) -> tuple[str, object, str | None]:
    """What became of a job, as soon as something has."""
    job = server.done("GET", f"/v1/jobs/{job_id}?wait=30s")
    return job["state"], job["result"], job["error"]


def test_a_worker_in_node_does_jobs_of_a_python_server(serve: Serve) -> None:
    server = serve()
    with started(server, "node", str(NODE), "mail") as worker:
        put = [
            {"queue": "mail", "name": "add", "payload": {"a": 1, "b": 2}},
            {"queue": "mail", "name": "greet", "payload": {"name": "Ann"}},
            {"queue": "mail", "name": "greet", "payload": {}},
            {"queue": "mail", "name": "unheard-of"},
        ]
        ids = [server.done("POST", "/v1/jobs", job)["id"] for job in put]
        assert ended(server, ids[0]) == ("FINISHED", 3, None)
        assert ended(server, ids[1]) == ("FINISHED", "hello Ann", None)
        assert ended(server, ids[2]) == ("FAILED", None, "TypeError: nobody to greet")
        (session,) = server.done("GET", "/v1/workers")["workers"]
        assert (session["pid"], session["queues"]) == (worker.pid, ["mail"])
        worker.send_signal(signal.SIGTERM)
        said, _ = worker.communicate(timeout=PATIENCE)
        assert (worker.returncode, said.splitlines()[-1]) == (0, "bye"), said
    late = server.done("GET", f"/v1/jobs/{ids[3]}")
    assert (late["state"], late["attempt"]) == ("QUEUED", 0)
    assert server.done("GET", "/v1/workers")["workers"] == []


@pytest.mark.parametrize("token", ["", "needed"])
def test_a_shell_and_curl_are_a_worker(serve: Serve, token: str) -> None:
    server = serve()
    ids = [
        server.done("POST", "/v1/jobs", {"queue": "sums", "payload": {"id": 7, "lease": "x"}})["id"]
        for _ in range(2)
    ]
    if token:
        token = server.done("POST", "/v1/tokens", {"name": "w", "scopes": ["admin"]})["token"]
    # The command reads the job and prints JSON; it fails for the second job.
    command = f'grep -q "\\"id\\":{ids[0]},\\"state\\"" && echo "{{\\"sum\\": 3}}"'
    words = (str(CURL), "sums", "sh", "-c", command)
    with started(server, *words, ONCE="1", STOKER_TOKEN=token) as worker:
        said, _ = worker.communicate(timeout=PATIENCE)
    assert said.splitlines() == [f"job {ids[0]} is done", f"job {ids[1]} failed"]
    assert worker.returncode == 0
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    jobs = [server.ask("GET", f"/v1/jobs/{each}", headers=headers).json for each in ids]
    assert [(job["state"], job["result"]) for job in jobs] == [
        ("FINISHED", {"sum": 3}),
        ("FAILED", None),
    ]
    assert jobs[1]["error"] == "sh ended with 1"
