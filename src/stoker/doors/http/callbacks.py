"""Callbacks: what became of a job is posted to a URL, again and again until it is heard.

A callback is a job of its own, the sequel of the one it tells about. So it is as durable as that
one, happens whoever ends it and wherever, and is seen, retried and cancelled like any other job.
Since it makes this server call out, an operator has to name where to.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from email.message import Message
from typing import IO, Any
from urllib.parse import urlsplit

import msgspec

from stoker import __version__
from stoker.desk import Desk, Placement, Twin
from stoker.doors.forms import StateName, content, state_name
from stoker.doors.http.office import Office
from stoker.doors.http.problems import Forbidden
from stoker.errors import BadInput
from stoker.kernel.job import Job
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Retention
from stoker.kernel.retry_forms import exponential
from stoker.store import Filter
from stoker.worker.context import Context
from stoker.worker.tasks import Definition, Tasks
from stoker.worker.worker import Worker, WorkerSettings

QUEUE = "stoker-callbacks"
TASK = "stoker.callback"

_POLICY = Policy(timeout=60 * 1_000_000, retry=exponential(12, base="2s", cap="1h"))
_SECONDS = 30.0
_CONCURRENCY = 8


class Notice(msgspec.Struct, frozen=True, rename={"job_id": "job-id"}):
    """What is posted."""

    job_id: str
    id: int
    type: str
    state: StateName
    result: Any
    error: str | None


def check_callbacks(prefixes: tuple[str, ...]) -> None:
    """Refuse what would allow more than it seems to."""
    for prefix in prefixes:
        parts = urlsplit(prefix)
        if parts.scheme not in ("http", "https") or not parts.netloc or not prefix.endswith("/"):
            raise BadInput(
                f"{prefix!r} does not say where results may be posted; write the beginning of a "
                "URL up to a slash, as in https://hooks.example.com/"
            )


async def with_callback(office: Office, job: Job, twin: Twin, url: str) -> Placement:
    """Take in a job, and post to the URL what became of it."""
    _check_url(office.settings.callbacks, url)
    if twin is not Twin.REJECT:
        raise BadInput('a job with a callback must be new; leave `if_exists` at "reject"')
    if job.policy.retention is None:
        # Kept a while in any case: what became of it is still to be told.
        policy = msgspec.structs.replace(job.policy, retention=Retention())
        job = msgspec.structs.replace(job, policy=policy)
    sequel = Job(QUEUE, TASK, msgspec.json.encode({"url": url}), policy=_POLICY)
    placed = await office.run(office.desk.flows.with_sequel, job, sequel)
    office.observer.nudge()
    return Placement(placed, fresh=True)


def _check_url(prefixes: tuple[str, ...], url: str) -> None:
    if not prefixes:
        raise Forbidden("this server posts no results; start it with --http-callbacks URL")
    if not any(url.startswith(prefix) for prefix in prefixes):
        raise Forbidden(f"results may be posted to {', '.join(prefixes)} only")
    if not url.isascii() or any(char.isspace() for char in url):
        raise BadInput("a callback is a URL in ASCII, without spaces")


def callback_worker(desk: Desk, prefixes: tuple[str, ...]) -> Worker:
    """Posts what is to be posted, in threads of its own."""
    tasks = Tasks()
    tasks.add(Definition(_deliverer(desk, prefixes), name=TASK, queue=QUEUE, policy=_POLICY))
    settings = WorkerSettings(
        (QUEUE,), concurrency=_CONCURRENCY, name="http-callbacks", chores=False
    )
    return Worker(desk, tasks, settings)


def _deliverer(desk: Desk, prefixes: tuple[str, ...]) -> Callable[..., None]:
    def deliver(url: str, context: Context) -> None:
        _check_url(prefixes, url)
        for job in desk.store.find(Filter(parent_id=context.job.id, limit=1)):
            post(url, _notice(job), f"stoker-{context.job.id}")

    return deliver


def _notice(job: Job) -> Notice:
    result = None if job.result is None else content(job.result)
    return Notice(
        job.ref or str(job.id), job.id, job.name, state_name(job.state), result, job.error
    )


def post(url: str, notice: Notice, key: str) -> None:
    """Post once; anything but a success is an error."""
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked with the prefixes
        url,
        msgspec.json.encode(notice),
        {
            "Content-Type": "application/json",
            "User-Agent": f"stoker/{__version__}",
            "Idempotency-Key": key,
        },
    )
    with _OPENER.open(request, timeout=_SECONDS) as answer:
        answer.read(1)


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Nobody may send us elsewhere."""

    def redirect_request(
        self,
        req: urllib.request.Request,  # noqa: ARG002
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: Message,  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> None:
        return None


_OPENER = urllib.request.build_opener(_StayHere)
