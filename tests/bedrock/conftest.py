"""The door on every engine, and a server among processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.desk import Desk
from tests.bedrock.teller import Teller
from tests.bedrock.wire import Server, Wire

Serve = Callable[..., Server]


@pytest.fixture
def teller(desk: Desk) -> Teller:
    """The door without sockets."""
    return Teller(desk)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of a file; they keep apart by the names of their jobs."""
    path = tmp_path_factory.mktemp("bedrock") / "jobs.db"
    server = Server(f"sqlite:///{path}?sync=normal", "--bedrock-query")
    yield server
    server.kill()


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    """A connection to it; this and all others of the test are closed in the end."""
    yield server.connect()
    server.hang_up()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Servers of a test's own, all on one file; killed in the end if they still run."""
    begun: list[Server] = []

    def start(*options: str, env: dict[str, str] | None = None) -> Server:
        url = f"sqlite:///{tmp_path / 'jobs.db'}?sync=normal"
        begun.append(Server(url, *options, env=env))
        return begun[-1]

    yield start
    for server in begun:
        server.kill()
