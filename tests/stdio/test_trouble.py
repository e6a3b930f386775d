"""A store in trouble, and faults of our own: no line is dropped, and on it goes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.doors.stdio import loop
from stoker.doors.stdio.processor import Processor
from stoker.doors.stdio.settings import Settings
from stoker.errors import StoreError, StoreReadOnly, StoreUnavailable
from stoker.kernel.job import State
from stoker.store import Store
from stoker.store.memory import MemoryStore
from stoker.store.patient import patient
from tests.stdio.bus import worker_id
from tests.stdio.pipes import added, message, says

ANN = worker_id("ann")


class Flaky(MemoryStore):
    """Cannot be reached every other time, or never again."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.gone = False
        self._works = False

    def __getattribute__(self, name: str) -> Any:
        verb = super().__getattribute__(name)
        if name not in ("transact", "find", "survey", "sessions", "beat", "hold"):
            return verb

        def ask(*args: Any) -> Any:
            self._works = not self._works
            if self._works and not self.gone:
                return verb(*args)
            self.failures += 1
            raise StoreUnavailable("the store is away")

        return ask


@pytest.fixture(autouse=True)
def _haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_PAUSES", (0.001,))


@pytest.fixture
def store() -> Flaky:
    return Flaky()


class Pipes:
    """Something to read that ends, and somewhere to write."""

    def __init__(self, folder: Path, *messages: dict[str, object]) -> None:
        lines = b"".join(json.dumps(each).encode() + b"\n" for each in messages)
        (folder / "in").write_bytes(lines)
        self._out = folder / "out"
        self.source = os.open(folder / "in", os.O_RDONLY)
        self.sink = os.open(self._out, os.O_WRONLY | os.O_CREAT)

    def said(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._out.read_bytes().splitlines()]

    def close(self) -> None:
        os.close(self.source)
        os.close(self.sink)


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Pipes]:
    pipes = Pipes(tmp_path, says(ANN, "worker_idle"), added("one"), added("two"))
    yield pipes
    pipes.close()


def test_a_store_that_is_away_for_a_while_costs_no_line(
    store: Flaky, pipes: Pipes, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = iter([StoreUnavailable("not yet"), StoreUnavailable("not yet"), None])

    def open_store() -> Store:
        trouble = next(attempts)
        if trouble is not None:
            raise trouble
        return store

    assert loop.run(Settings(), open_store, pipes.source, pipes.sink) == loop.DONE
    assert len(pipes.said()) == 1
    assert store.failures > 5
    levels = {record.levelname for record in caplog.records}
    assert levels == {"ERROR"} and "not yet" in caplog.text and "is away" in caplog.text
    (view,) = MemoryStore.survey(store)
    assert (view.counts[State.QUEUED], view.counts[State.RUNNING]) == (1, 1)


def test_a_store_that_stays_away_is_given_up_when_nothing_more_is_to_come(
    store: Flaky, pipes: Pipes, caplog: pytest.LogCaptureFixture
) -> None:
    store.gone = True
    assert loop.run(Settings(), lambda: store, pipes.source, pipes.sink) == loop.STORE_TROUBLE
    assert caplog.records[-1].levelname == "CRITICAL"


def test_a_store_that_cannot_be_opened_is_given_up_before_anything_is_read(
    pipes: Pipes, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[None] = []

    def open_store() -> Store:
        attempts.append(None)
        raise StoreUnavailable("not up")

    assert loop.run(Settings(), open_store, pipes.source, pipes.sink) == loop.STORE_TROUBLE
    assert len(attempts) == 15
    assert caplog.records[-1].getMessage() == (
        "the store cannot be opened, and nothing was read: not up"
    )
    assert os.read(pipes.source, 1) == b"{"


def test_a_store_that_cannot_be_written_is_not_waited_for(
    pipes: Pipes, caplog: pytest.LogCaptureFixture
) -> None:
    def open_store() -> Store:
        raise StoreReadOnly("may not be written")

    assert loop.run(Settings(), open_store, pipes.source, pipes.sink) == loop.STORE_TROUBLE
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]


def test_a_fault_of_ours_spoils_only_the_line_that_it_is_about(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handle = Processor.handle

    def faulty(self: Processor, lines: list[bytes]) -> None:
        if any(b'"one"' in line for line in lines):
            raise ZeroDivisionError
        handle(self, lines)

    monkeypatch.setattr(Processor, "handle", faulty)
    store = MemoryStore()
    assert loop.run(Settings(), lambda: store, pipes.source, pipes.sink) == loop.DONE
    assert [each["payload"]["uuid"] for each in pipes.said()] == ["two"]  # type: ignore[index]
    assert "ZeroDivisionError" in caplog.text


def test_patience_asks_until_there_is_an_answer_and_lets_other_errors_through(
    store: Flaky,
) -> None:
    pauses: list[int] = []

    def pause(error: StoreError, failures: int) -> None:
        assert str(error) == "the store is away"
        pauses.append(failures)

    insistent = patient(store, pause)
    assert insistent.survey() == []
    assert insistent.sessions() == []
    assert pauses == [1]
    with pytest.raises(TypeError):
        insistent.get(None)  # type: ignore[arg-type]


def test_questions_are_answered_from_a_file_as_from_a_pipe(tmp_path: Path) -> None:
    asked = message("job_queue/list_job_queue", {"queue_name": "q"})
    pipes = Pipes(tmp_path, added("one"), asked)
    assert loop.run(Settings(), MemoryStore, pipes.source, pipes.sink) == loop.DONE
    assert len(pipes.said()) == 1
    pipes.close()
