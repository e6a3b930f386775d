"""The door without sockets: a request in, a reply out, on whatever engine the desk has."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from stoker.desk import Desk
from stoker.doors.bedrock.commands import Circumstances, created, intent_of
from stoker.doors.bedrock.counter import failed
from stoker.doors.bedrock.handout import Ask, Issue
from stoker.doors.bedrock.intents import Decide, Errand, Intent, Look, Place, Seek
from stoker.doors.bedrock.protocol import Parser, Reply
from stoker.doors.bedrock.query import ask
from stoker.doors.bedrock.waiting import shown
from stoker.errors import NotFound, StokerError


class Said(NamedTuple):
    """What was answered."""

    status: str
    json: Any


class Teller:
    """Serves one request at a time."""

    def __init__(self, desk: Desk, tries: int | None = 10) -> None:
        self.desk = desk
        self._around = Circumstances(desk, tries, ask)
        self._issue = Issue(desk)
        self.advice = ""
        """What the last answer said in its header `error`."""

    def __call__(self, verb: str, /, **headers: object) -> Said:
        """A command and its parameters, as in teller("GetJob", name="foo")."""
        lines = [f"{name}: {_text(value)}" for name, value in headers.items()]
        return self.say("\n".join([verb, *lines]) + "\n\n")

    def say(self, text: str) -> Said:
        """A request as it comes over the wire."""
        parser = Parser()
        parser.feed(text.encode())
        request = parser.next_request()
        assert request is not None
        try:
            reply = self._done(intent_of(self._around, request))
        except StokerError as error:
            reply = failed(error, {})
        self.advice = reply.headers.get("error", "")
        return Said(reply.status, msgspec.json.decode(reply.body) if reply.body else None)

    def ok(self, verb: str, /, **headers: object) -> Any:
        """The same, where nothing but success will do."""
        status, json = self(verb, **headers)
        assert status == "200 OK", status
        return json

    def create(self, name: str = "foo", **headers: object) -> int:
        """The id of a new job."""
        job_id = self.ok("CreateJob", name=name, **headers)["jobID"]
        assert isinstance(job_id, int)
        return job_id

    def get(self, name: str = "foo", **headers: object) -> Any:
        """A job that was handed out."""
        return self.ok("GetJob", name=name, **headers)

    def begun(self, name: str = "foo", **headers: object) -> int:
        """The id of a new job that runs."""
        job_id = self.create(name, **headers)
        assert self.get(name)["jobID"] == job_id
        return job_id

    def state(self, job_id: int) -> str | None:
        """Its state; None if it is gone."""
        status, json = self("QueryJob", jobID=job_id)
        return json["state"] if status == "200 OK" else None

    def query(self, job_id: int) -> Any:
        """All that is known of it."""
        return self.ok("QueryJob", jobID=job_id)

    def _done(self, intent: Intent) -> Reply:  # noqa: PLR0911 - one for each kind
        if isinstance(intent, Place):
            (placed,) = self.desk.orders.place_each([intent.job])
            return created(placed) if isinstance(placed, int) else failed(placed, {})
        if isinstance(intent, Decide):
            (decided,) = self.desk.byhand.settle([intent.decision])
            if isinstance(decided, StokerError):
                return failed(decided, intent.lines)
            return Reply()
        if isinstance(intent, Look):
            job = self.desk.store.get([intent.job_id]).get(intent.job_id)
            return failed(NotFound(), {}) if job is None else intent.shown(job)
        if isinstance(intent, Seek):
            return self._sought(intent)
        if isinstance(intent, Errand):
            try:
                return intent.run(self.desk)
            except StokerError as error:
                return failed(error, intent.lines)
        return intent

    def _sought(self, seek: Seek) -> Reply:
        (found,) = self._issue.serve([Ask(seek.queues, seek.rank, seek.wanted, waits=False)])
        if isinstance(found, BaseException):
            raise found
        return shown(seek, found.handouts) if found.handouts else Reply("404 No job found")


def _text(value: object) -> str:
    """A parameter as clients write it, with its backslashes doubled."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text.replace("\\", "\\\\")
