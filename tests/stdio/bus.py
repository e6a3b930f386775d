"""Creators, workers and a processor between them, on a bus that is a list."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple

from stoker.desk import Desk
from stoker.doors.stdio.processor import Processor
from stoker.doors.stdio.settings import Settings
from stoker.doors.stdio.wire import stamp
from tests.engines import VirtualClock

Fields = dict[str, Any]
SECOND = 1_000_000


def worker_id(name: str) -> str:
    """An id of the usual form for a worker with a short name."""
    return f"{name:_<8}-0000-0000-0000-000000000000"


class Sent(NamedTuple):
    """A message of the processor, in short."""

    topic: str
    payload: Fields


class Bus:
    """A processor whose clock is ours, and everybody who speaks to it."""

    def __init__(self, desk: Desk, clock: VirtualClock, **settings: Any) -> None:
        self.desk = desk
        self.clock = clock
        self.settings = Settings(name="job_queue", uuid="processor", host="here", **settings)
        self.processor = Processor(desk, self.settings, self._hear)
        self.lines: list[bytes] = []
        self._read = 0
        self._numbers = count(1)

    def _hear(self, text: bytes) -> None:
        assert text.endswith(b"\n")
        self.lines += text.splitlines()

    def say(self, *messages: Fields) -> list[Sent]:
        """Send messages, all at once; gives what is answered."""
        return self.say_lines([json.dumps(message).encode() for message in messages])

    def say_lines(self, lines: Iterable[bytes]) -> list[Sent]:
        self.processor.handle(lines)
        return self.heard()

    def heard(self) -> list[Sent]:
        """What the processor has said since we last listened."""
        news = [json.loads(line) for line in self.lines[self._read :]]
        self._read = len(self.lines)
        return [Sent(each["topic"], each["payload"]) for each in news]

    def tick(self) -> list[Sent]:
        return self.say({"topic": "default/tick"})

    def pass_(self, seconds: float) -> list[Sent]:
        """Let time go by in ticks."""
        heard: list[Sent] = []
        while seconds > 0:
            self.clock.pass_(min(seconds, 3))
            seconds -= 3
            heard += self.tick()
        return heard

    # -- messages --------------------------------------------------------------------------

    def message(self, topic: str, payload: Fields, **envelope: Any) -> Fields:
        at = {"created_at": stamp(self.clock.now)}
        return {"topic": f"default/{topic}", "payload": payload, **at, **envelope}

    def add(self, uuid: str = "", queue: str = "q", **fields: Any) -> Fields:
        uuid = uuid or f"job {next(self._numbers)}"
        return self.message("job_queue/add_job", {"uuid": uuid, "queue_name": queue, **fields})

    def worker(self, name: str, queue: str = "q") -> Worker:
        return Worker(self, worker_id(name), queue)

    def ask(self, listing: str, queue: str = "q", **fields: Any) -> list[Fields]:
        """The items of a listing."""
        question = self.message(
            f"job_queue/{listing}", {"queue_name": queue, **fields}, service_uuid="asker"
        )
        (answer,) = self.say(question)
        assert answer.topic == f"default/job_queue/{listing}/response"
        payload = answer.payload
        assert (payload["queue_name"], payload["reply_to"]) == (queue, "asker")
        assert payload["count"] == len(payload["items"])
        items: list[Fields] = payload["items"]
        return items

    def states(self, queue: str = "q") -> dict[str, list[str]]:
        """Who is where, by the listings."""
        names = {
            "queued": "list_job_queue",
            "dispatched": "list_leased_queue",
            "processing": "list_progress_queue",
        }
        found = {word: self.ask(listing, queue) for word, listing in names.items()}
        return {word: [item["uuid"] for item in items] for word, items in found.items() if items}


class Worker:
    """What a worker may say at a queue."""

    def __init__(self, bus: Bus, uuid: str, queue: str) -> None:
        self._bus = bus
        self.uuid = uuid
        self.queue = queue

    def says(self, verb: str, payload: Fields, **envelope: Any) -> Fields:
        topic = f"job_queue/workers/{self.uuid}/{verb}"
        return self._bus.message(topic, payload, **{"service_uuid": self.uuid, **envelope})

    def idle(self, **envelope: Any) -> Fields:
        return self.says("worker_idle", {"queue_name": self.queue}, **envelope)

    def accepted(self, uuid: str, **fields: Any) -> Fields:
        started = {"started_at": stamp(self._bus.clock.now)}
        return self.says("job_accepted", self._about(uuid, started | fields))

    def progress(self, uuid: str, **fields: Any) -> Fields:
        return self.says("worker_progress", self._about(uuid, fields))

    def finished(self, uuid: str, **fields: Any) -> Fields:
        ended = {"finished_at": stamp(self._bus.clock.now)}
        return self.says("job_finished", self._about(uuid, ended | fields))

    def _about(self, uuid: str, fields: Fields) -> Fields:
        return {"uuid": uuid, "queue_name": self.queue, **fields}

    def was_given(self, sent: Iterable[Sent]) -> list[str]:
        """The jobs that were assigned to this worker."""
        topic = f"default/job_queue/workers/{self.uuid}/job_assignment"
        return [each.payload["uuid"] for each in sent if each.topic == topic]
