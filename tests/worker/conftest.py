"""Real workers on each engine, in real time; all of them are sent home in the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest

from stoker import Stoker, Worker
from stoker.worker import ferry
from tests.servers.urls import fresh_url


class Hire(Protocol):
    """Starts a worker with these settings."""

    def __call__(self, **settings: Any) -> Worker: ...


@pytest.fixture(params=["memory", "sqlite"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of the app's store."""
    with fresh_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def app(home: str) -> Iterator[Stoker]:
    with closing(Stoker(home)) as app:
        yield app


@pytest.fixture
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is not woken sleeps on."""
    monkeypatch.setattr(ferry, "_LONGEST_SLEEP", 3600.0)


@pytest.fixture
def hire(app: Stoker) -> Iterator[Hire]:
    workers = []

    def hire(**settings: Any) -> Worker:
        worker = app.worker(**{"concurrency": 4, **settings})
        worker.start()
        workers.append(worker)
        return worker

    yield hire
    for worker in workers:
        worker.stop(grace=0)
