"""A database server of the bench's own: on a free loopback port, and ended with the bench."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
_NOBODY = "nobody"
_PATIENCE = 60.0
_LOOK = 0.02
_ATTEMPTS = 5


class NoServer(Exception):
    """A server could not be started, or another one answers in its place."""


@contextlib.contextmanager
def server(
    command: Callable[[int], Sequence[str]],
    answers: Callable[[int, int], bool],
    log: Path,
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator[int]:
    """Start what `command` says for a port, and end it with the block; yields the port.

    `answers` is told the port and the server's process; it says whether the server is up, and
    refuses one that is not ours.
    """
    process, port = _started(command, answers, log)
    try:
        yield port
    finally:
        _end(process, stop)


def _started(
    command: Callable[[int], Sequence[str]], answers: Callable[[int, int], bool], log: Path
) -> tuple[subprocess.Popen[bytes], int]:
    # Between finding a port and using it somebody else may take it; then the server ends at once.
    for _ in range(_ATTEMPTS):
        port = free_port()
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - our own words only
                command(port),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},  # text is compared alike wherever it is run
                **as_nobody(),
            )
        try:
            if _is_up(process, port, answers):
                return process, port
        except BaseException:
            _end(process, signal.SIGKILL)
            raise
    raise NoServer(f"{command(0)[0]} does not start: {last_words(log)}")


def _is_up(
    process: subprocess.Popen[bytes], port: int, answers: Callable[[int, int], bool]
) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None:
        if answers(port, process.pid):
            return True
        if time.monotonic() > deadline:
            raise NoServer(f"no server answered on port {port} within {_PATIENCE:g} s")
        time.sleep(_LOOK)
    return False


def _end(process: subprocess.Popen[bytes], stop: signal.Signals) -> None:
    process.send_signal(stop)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)
    process.kill()
    process.wait()


def until(true: Callable[[], bool], what: str) -> None:
    """Wait until something has come about."""
    deadline = time.monotonic() + _PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise NoServer(f"{what} within {_PATIENCE:g} s")
        time.sleep(_LOOK)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


def as_nobody() -> dict[str, Any]:
    """For `subprocess`: root may not run PostgreSQL, so servers run as a user without rights."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(_NOBODY)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def own_folder(parent: Path, name: str) -> Path:
    """A new folder that servers may write to."""
    folder = parent / name
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        user = pwd.getpwnam(_NOBODY)
        os.chown(folder, user.pw_uid, user.pw_gid)
        parent.chmod(0o711)
    return folder


def last_words(log: Path) -> str:
    """What a server said at last."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].strip()[:200] if lines else "it says nothing"
