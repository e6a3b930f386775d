"""An instance of Hipq with a service at the other end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from stoker.desk import Desk
from stoker.hipq import Hipq, HipqJob
from stoker.testing.stage import Stage
from tests.engines import VirtualClock


class House:
    """An instance at a desk, with a service that only remembers what it was asked for."""

    def __init__(self, desk: Desk, clock: VirtualClock) -> None:
        self.hipq = Hipq(desk)
        self.stage = Stage(self.hipq.app, cast("Any", clock))
        self.asked: list[tuple[str, int]] = []
        self.hipq.create_queue("orders")

    def ask(self, job: HipqJob) -> None:
        """The request function that most use."""
        self.asked.append((job.job_key, job.attempt))

    def handle(self, request: Callable[[HipqJob], Any] | None = None, **more: Any) -> None:
        self.hipq.set_handlers("orders", "charge", request or self.ask, **more)

    def put(self, **said: Any) -> int:
        return self.hipq.queue_job("orders", {"job_type": "charge", **said})

    def state(self, job_id: int) -> str:
        return self.hipq.job(job_id).state.value
