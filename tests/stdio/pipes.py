"""Real `stoker stdio` processes at the ends of pipes."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import stoker
from tests.stdio.bus import Fields

SOURCE = str(Path(stoker.__file__).parents[1])
PATIENCE = 60
_OURS = ("STOKER_", "SERVICE_", "NAMESPACE_", "TICK_", "WORKER_", "MAX_", "LOG_")


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def message(topic: str, payload: Fields, **envelope: Any) -> Fields:
    return {"topic": f"default/{topic}", "payload": payload, "created_at": now(), **envelope}


def added(uuid: str, **fields: Any) -> Fields:
    return message("job_queue/add_job", {"uuid": uuid, "queue_name": "q", **fields})


def says(worker: str, verb: str, **payload: Any) -> Fields:
    topic = f"job_queue/workers/{worker}/{verb}"
    return message(topic, {"queue_name": "q", **payload}, service_uuid=worker)


class Piped:
    """One process: what is said to it, what it says, and its log."""

    def __init__(
        self, place: Path, *options: str, heard: queue.Queue[Fields] | None = None, **env: str
    ) -> None:
        kept = {name: text for name, text in os.environ.items() if not name.startswith(_OURS)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stoker", "stdio", "--store", "sqlite:///jobs.db", *options],
            cwd=place,
            env={**kept, "PYTHONPATH": SOURCE, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.heard: queue.Queue[Fields] = queue.Queue() if heard is None else heard
        self.log: list[Fields] = []
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._stdin = self.process.stdin
        self._readers = [
            _reader(self.process.stdout, self.heard.put),
            _reader(self.process.stderr, self.log.append),
        ]

    def say(self, *messages: Fields | bytes) -> None:
        """Write lines; to a process that is dead they are lost."""
        lines = [
            each if isinstance(each, bytes) else json.dumps(each).encode() for each in messages
        ]
        with suppress(BrokenPipeError):
            self._stdin.write(b"".join(line + b"\n" for line in lines))
            self._stdin.flush()

    def hear(self) -> Fields:
        """The next message it writes."""
        return self.heard.get(timeout=PATIENCE)

    def end(self) -> int:
        """Let its input end, and wait for it; gives its exit code."""
        with suppress(BrokenPipeError):
            self._stdin.close()
        return self.wait()

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def wait(self) -> int:
        code = self.process.wait(timeout=PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        with suppress(BrokenPipeError):
            self._stdin.close()
        return code


def _reader(stream: IO[bytes], hear: Callable[[Fields], object]) -> threading.Thread:
    """Reads lines, each of which has to be JSON, until the stream ends."""

    def read() -> None:
        with stream:
            for line in stream:
                if line.endswith(b"\n"):  # what a killed process has begun is no line
                    hear(json.loads(line))

    thread = threading.Thread(target=read)
    thread.start()
    return thread
