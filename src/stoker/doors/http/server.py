"""Opens and closes the HTTP door: uvicorn in the loop of all doors, within limits."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from stoker.desk import Desk
from stoker.doors.addresses import is_loopback
from stoker.doors.http.app import OPERATIONS, app_of
from stoker.doors.http.callbacks import callback_worker, check_callbacks
from stoker.doors.http.guard import guarded
from stoker.doors.http.office import Office
from stoker.doors.http.settings import Settings
from stoker.doors.http.short import ShortWays
from stoker.errors import BadInput, StokerError
from stoker.worker.worker import Worker

_BACKLOG = 2048
_LOOK = 0.01


class HttpDoor:
    """Opened and closed by whoever runs the process."""

    def __init__(self, desk: Desk, settings: Settings) -> None:
        check_callbacks(settings.callbacks)
        self._desk = desk
        self._settings = settings
        self._office = Office(desk, settings)
        self._server = _Server(_config(self._office))
        self._worker: Worker | None = None

    async def open(self) -> str:
        """Begin to serve; tells where."""
        await asyncio.to_thread(self._check_exposure)
        listening = _bound(self._settings)
        self._serving = asyncio.create_task(self._server.serve([listening]))
        while not self._server.started:
            if self._serving.done():
                await self._serving
                raise StokerError("the HTTP server did not start")
            await asyncio.sleep(_LOOK)
        if self._settings.callbacks:
            self._worker = callback_worker(self._desk, self._settings.callbacks)
            await asyncio.to_thread(self._worker.start)
        host, port = listening.getsockname()[:2]
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return f"{'http' if self._settings.tls is None else 'https'} on {where}"

    async def close(self) -> None:
        """Let nobody in, answer everybody who is here, and stop."""
        self._office.stop_waiting()
        self._server.should_exit = True
        await self._serving
        if self._worker is not None:
            await asyncio.to_thread(self._worker.stop, self._settings.grace)

    def _check_exposure(self) -> None:
        host, tokens = self._settings.host, self._office.register.entries()
        if tokens or self._settings.insecure or is_loopback(host):
            return
        raise BadInput(
            f"{host} can be reached by others, and no token is there to keep them out: make one "
            "with `stoker token add`, or say --insecure if the network lets nobody in who should "
            "stay out"
        )


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(office: Office) -> uvicorn.Config:
    settings, tls = office.settings, office.settings.tls
    return uvicorn.Config(
        app_of(office),
        http=guarded(settings, ShortWays(office, OPERATIONS)),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=settings.connections,
        backlog=_BACKLOG,
        timeout_keep_alive=settings.idle_seconds,
        timeout_graceful_shutdown=round(settings.grace),
        h11_max_incomplete_event_size=settings.largest_head,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )


def _bound(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        where = f"{settings.host}:{settings.port}"
        raise BadInput(f"cannot listen on {where}: {error.strerror or error}") from error
    return listening
