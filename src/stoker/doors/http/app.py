"""The door as an ASGI application: all operations behind their paths."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Lifespan, Receive, Scope, Send

from stoker.desk import Desk
from stoker.doors.http import events, jobs, openapi, queues, replies, schedules, tokens, work
from stoker.doors.http.endpoint import Endpoint, Nowhere, Operation
from stoker.doors.http.jobber import routes
from stoker.doors.http.office import Office
from stoker.doors.http.settings import Settings

# The busiest come first, for routes are tried one after the other.
OPERATIONS: tuple[Operation, ...] = (
    *jobs.OPERATIONS[:1],
    *routes.OPERATIONS[:1],
    *work.OPERATIONS,
    *jobs.OPERATIONS[1:],
    *replies.OPERATIONS,
    *queues.OPERATIONS,
    *schedules.OPERATIONS,
    *events.OPERATIONS,
    *tokens.OPERATIONS,
    *routes.OPERATIONS[1:],
    *openapi.OPERATIONS,
)


def create_app(desk: Desk, settings: Settings = Settings()) -> Starlette:  # noqa: B008 - a value
    """The application, to be served or mounted; it must be told of its start and its end."""
    return app_of(Office(desk, settings))


def app_of(office: Office) -> Starlette:
    """The application of an office, which is opened when the application starts."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await office.open()
        yield
        await office.close()

    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    endpoints = {path: Endpoint(office, operations) for path, operations in by_path.items()}
    return Front([Route(path, endpoint) for path, endpoint in endpoints.items()], lifespan)


class Front(Starlette):
    """Starlette with a short cut: a path without parameters needs no search."""

    def __init__(self, routes: Sequence[Route], lifespan: Lifespan[Starlette]) -> None:
        super().__init__(routes=routes, lifespan=lifespan)
        self.router.redirect_slashes = False
        self.router.default = Nowhere()
        self._plain = {route.path: route.app for route in routes if "{" not in route.path}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or begin or end."""
        endpoint = self._plain.get(scope.get("path", ""))
        if endpoint is None or scope["type"] != "http" or scope.get("root_path"):
            await super().__call__(scope, receive, send)
        else:
            scope["path_params"] = {}
            await endpoint(scope, receive, send)
