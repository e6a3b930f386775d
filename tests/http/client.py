"""Clients of the door, in the same process or of a server in another."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from starlette.testclient import TestClient

import stoker
from stoker.desk import Desk
from stoker.doors.http.app import create_app
from stoker.doors.http.settings import Settings

SOURCE = str(Path(stoker.__file__).parents[1])
PATIENCE = 30.0


class Answer(NamedTuple):
    """One answer, taken apart."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.content)


class Api:
    """Asks, and hands back the answer. Bytes are sent as they are, anything else as JSON."""

    def __init__(self, client: TestClient) -> None:
        self._client = client

    def ask(
        self, method: str, path: str, said: object = None, /, headers: dict[str, str] | None = None
    ) -> Answer:
        content = said if isinstance(said, bytes) or said is None else msgspec.json.encode(said)
        answer = self._client.request(method, path, content=content, headers=headers)
        return Answer(answer.status_code, dict(answer.headers), answer.content)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, said: object = None, **headers: str) -> Answer:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, said, headers=names)

    def done(self, method: str, path: str, said: object = None) -> Any:
        """Ask for something that works; what was answered."""
        answer = self.ask(method, path, said)
        assert 200 <= answer.status < 300, answer
        return answer.json if answer.content else None

    def put(self, queue: str = "q", **facts: object) -> int:
        """A new job's id."""
        placed: int = self.done("POST", "/v1/jobs", {"queue": queue, **facts})["id"]
        return placed

    def take(self, *queues: str, **terms: object) -> list[Any]:
        """Jobs in hand."""
        wish = {"queues": queues or ["q"], **terms}
        jobs: list[Any] = self.done("POST", "/v1/claims", wish)["jobs"]
        return jobs

    def say(self, job: Any, verb: str, **words: object) -> Answer:
        """A word about a job in hand."""
        return self.post(f"/v1/jobs/{job['id']}/{verb}", {"lease": job["lease"], **words})

    def job(self, job_id: int) -> Any:
        return self.done("GET", f"/v1/jobs/{job_id}")

    def state(self, job_id: int) -> str:
        state: str = self.job(job_id)["state"]
        return state


@contextmanager
def opened(desk: Desk, settings: Settings = Settings()) -> Iterator[Api]:  # noqa: B008
    """A door without sockets."""
    with TestClient(create_app(desk, settings), base_url="http://localhost") as client:
        yield Api(client)


class Server:
    """A `stoker serve` of its own, which says on which port it listens."""

    def __init__(self, url: str, *options: str, address: str = "127.0.0.1:0") -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STOKER")}
        words = ("serve", "--store", url, "--http", address, *options)
        self.url = url
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stoker", *words],
            env={**clean, "PYTHONPATH": SOURCE},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"https? on \S+:(\d+)", line)
        assert found, line + self.process.stdout.read()
        self.port = int(found[1])
        self._connections: list[http.client.HTTPConnection] = []

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self, tls: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
        """A connection of its own; all are closed in the end."""
        where = ("localhost", self.port)
        made = (
            http.client.HTTPConnection(*where, timeout=PATIENCE)
            if tls is None
            else http.client.HTTPSConnection(*where, timeout=PATIENCE, context=tls)
        )
        self._connections.append(made)
        return made

    def ask(
        self,
        method: str,
        path: str,
        said: object = None,
        headers: dict[str, str] | None = None,
        over: http.client.HTTPConnection | None = None,
    ) -> Answer:
        """One request and its answer."""
        connection = over or self.connect()
        content = said if isinstance(said, bytes) or said is None else msgspec.json.encode(said)
        connection.request(method, path, content, headers or {})
        return answer_on(connection)

    def done(self, method: str, path: str, said: object = None) -> Any:
        answer = self.ask(method, path, said)
        assert 200 <= answer.status < 300, answer
        return answer.json if answer.content else None

    def raw(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def stop(self) -> str:
        """End it as an operator does; what it said meanwhile."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, said
        return said

    def kill(self) -> None:
        for connection in self._connections:
            connection.close()
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def answer_on(connection: http.client.HTTPConnection) -> Answer:
    """The answer that a connection waits for."""
    answer = connection.getresponse()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    return Answer(answer.status, headers, answer.read())
