"""Wake-ups between processes that share a file: one small socket a listener, in a folder beside it.

A ring is a datagram sent after the commit; an idle listener sleeps in the kernel and costs
nothing. Where sockets cannot be had the poll behind every wait still finds the work.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from stoker.errors import StokerError
from stoker.kernel.job import Job
from stoker.store.bell import Nudge
from stoker.store.rings import errand_ring

_LONGEST = 60_000
_SUFFIX = ".ear"
_TICK_NS = 100_000_000
_DESCRIPTORS = Path("/proc/self/fd")


class _Ring(msgspec.Struct, array_like=True, omit_defaults=True):
    """One message."""

    names: list[str]
    job: Job | None = None


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(_Ring).decode


class SocketListener:
    """An ear of its own, known to the ringers by its file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"{os.getpid()}-{secrets.token_hex(6)}{_SUFFIX}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        with _inside(folder) as address:
            self._socket.bind(address + self._name)
        self._brought: list[Job] = []
        self._nudge = Nudge()
        self._news = select.poll()
        self._news.register(self._socket, select.POLLIN)
        self._news.register(self._nudge, select.POLLIN)

    @property
    def address(self) -> str:
        return self._name

    def wait(self, timeout: float) -> set[str]:
        self._brought.clear()
        heard: set[str] = set()
        milliseconds = math.ceil(max(timeout, 0.0) * 1000)
        while sources := self._news.poll(milliseconds):
            for source, _ in sources:
                if source == self._nudge.fileno():
                    self._nudge.take_back()
                else:
                    ring = _heard(self._socket.recv(_LONGEST))
                    heard.update(ring.names)
                    if ring.job is not None:
                        self._brought.append(ring.job)
            milliseconds = 0
        return heard

    def brought(self) -> list[Job]:
        return list(self._brought)

    def interrupt(self) -> None:
        self._nudge.push()

    def close(self) -> None:
        self._socket.close()
        self._nudge.close()
        with contextlib.suppress(FileNotFoundError):
            (self._folder / self._name).unlink()


class DeafListener:
    """For places without such sockets: hears nothing, and lets the poll do its work."""

    def __init__(self) -> None:
        self._interrupted = threading.Event()

    @property
    def address(self) -> None:
        return None

    def wait(self, timeout: float) -> set[str]:
        self._interrupted.wait(max(timeout, 0.0))
        self._interrupted.clear()
        return set()

    def brought(self) -> list[Job]:
        return []

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        """Nothing to let go of."""


class SocketBell:
    """Rings all listeners of one database file."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._seen: tuple[int, list[str]] = (0, [])
        self._mouth: tuple[int, socket.socket] | None = None

    def listen(self) -> SocketListener | DeafListener:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            return SocketListener(self._folder)
        except OSError:
            return DeafListener()

    def close(self) -> None:
        """Ring no more."""
        if self._mouth is not None:
            self._mouth[1].close()
            self._mouth = None

    def ring(self, names: Iterable[str]) -> None:
        with contextlib.suppress(OSError):
            ears = self._ears()
            for message in _messages(list(names)) if ears else ():
                self._send(ears, message)

    def bring(self, errand: Job, ear: str) -> None:
        """Tell the one for whom a job was started, and send it along if it is not too long."""
        assert errand.session is not None
        names = [errand_ring(errand.session)]
        message = _ENCODE(_Ring(names, errand))
        with contextlib.suppress(OSError):
            self._send([ear], message if len(message) <= _LONGEST else _ENCODE(_Ring(names)))

    def is_heard_by(self, ear: str) -> bool:
        """Is there still somebody who listens at this address?"""
        try:
            with _inside(self._folder) as address:
                self._own_mouth().connect(address + ear)
        except OSError:
            return False
        return True

    def _ears(self) -> list[str]:
        """The listeners, read again only when one came or went."""
        changed = self._folder.stat().st_mtime_ns
        if self._seen[0] != changed:
            # Two changes within one tick of a file system's clock look like one.
            settled = time.time_ns() - changed > _TICK_NS
            ears = [ear.name for ear in self._folder.glob(f"*{_SUFFIX}")]
            self._seen = (changed if settled else 0, ears)
        return self._seen[1]

    def _send(self, ears: list[str], message: bytes) -> None:
        mouth = self._own_mouth()
        with _inside(self._folder) as address:
            for ear in ears:
                try:
                    mouth.sendto(message, address + ear)
                except BlockingIOError:
                    continue  # it has unheard rings already
                except (ConnectionRefusedError, FileNotFoundError):
                    self._bury(ear)

    def _own_mouth(self) -> socket.socket:
        if self._mouth is None or self._mouth[0] != os.getpid():
            mouth = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            mouth.setblocking(False)
            self._mouth = (os.getpid(), mouth)
        return self._mouth[1]

    def _bury(self, ear: str) -> None:
        """A listener died without a word."""
        self._seen = (0, [])
        with contextlib.suppress(OSError):
            (self._folder / ear).unlink()


def _messages(names: list[str]) -> Iterator[bytes]:
    """As few as will do. Whoever waits for a name that fits into none still has its poll."""
    message = _ENCODE(_Ring(names))
    if len(message) <= _LONGEST:
        yield message
    elif len(names) > 1:
        middle = len(names) // 2
        yield from _messages(names[:middle])
        yield from _messages(names[middle:])


def _heard(message: bytes) -> _Ring:
    try:
        return _DECODE(message)
    except (msgspec.MsgspecError, StokerError):
        return _Ring([])  # not from a ringer of ours


def _inside(folder: Path) -> contextlib.AbstractContextManager[str]:
    """An address prefix for sockets in a folder: by descriptor if that is long, since their names
    must be short."""
    path = str(folder)
    if len(os.fsencode(path)) < 60 or not _DESCRIPTORS.is_dir():
        return contextlib.nullcontext(f"{path}/")
    return _by_descriptor(folder)


@contextlib.contextmanager
def _by_descriptor(folder: Path) -> Iterator[str]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{_DESCRIPTORS}/{descriptor}/"
    finally:
        os.close(descriptor)
