"""A server that is there and does not answer: connections are open, and nothing comes of them.

Whoever works behind a proxy that holds everything up must stop before others begin; and go on, as
if nothing had been, when it lets things pass again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stoker import State, Stoker, Worker, current
from stoker.errors import StoreUnavailable
from stoker.store import Filter
from stoker.worker.context import StopReason
from tests.faults.places import BEHIND_A_PROXY, Place
from tests.worker.waiting import LIMIT, until

TTL = 2


@pytest.fixture(params=sorted(BEHIND_A_PROXY))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with BEHIND_A_PROXY[request.param](tmp_path) as place:
        yield place


class Diary:
    """Who ran what from when to when, and why it ended."""

    def __init__(self) -> None:
        self.begun: dict[tuple[int, int], float] = {}
        self.ended: dict[tuple[int, int], tuple[float, StopReason | None]] = {}

    def begin(self) -> None:
        job = current().job
        self.begun[job.id, job.attempt] = time.monotonic()

    def end(self) -> None:
        job = current().job
        self.ended[job.id, job.attempt] = time.monotonic(), current().stop_reason

    def gave_way(self, job: int) -> None:
        """The first try was told to end, and did, before the second began."""
        assert (job, 1) in self.ended, "it still runs"
        ended_at, reason = self.ended[job, 1]
        assert reason is StopReason.LOST
        assert ended_at < self.begun[job, 2]


@pytest.fixture
def diary() -> Diary:
    return Diary()


class Side:
    """An app at one end. The first try of its tasks ends when it is told to, and no sooner."""

    def __init__(self, url: str, diary: Diary) -> None:
        self.app = Stoker(url)
        self._diary = diary
        self.awaits = self.app.task(name="awaits")(self._await)
        self.asks = self.app.task(name="asks")(self._ask)
        self.plain = self.app.task(name="plain")(lambda: "done")

    async def _await(self) -> int:
        self._diary.begin()
        try:
            await asyncio.sleep(LIMIT if current().attempt == 1 else 0)
        finally:
            self._diary.end()
        return current().attempt

    def _ask(self) -> int:
        self._diary.begin()
        try:
            while current().attempt == 1:
                current().check()
                time.sleep(0.01)
        finally:
            self._diary.end()
        return current().attempt

    @contextmanager
    def work(self) -> Iterator[Worker]:
        """A worker of this side."""
        worker = self.app.worker(ttl=TTL)
        worker.start()
        try:
            yield worker
        finally:
            worker.stop(grace=0)

    def close(self) -> None:
        self.app.close()


@pytest.fixture
def here(place: Place, diary: Diary) -> Iterator[Side]:
    """The side that always has a server."""
    with closing(Side(place.url, diary)) as here:
        yield here


@pytest.fixture
def there(place: Place, diary: Diary) -> Iterator[Side]:
    """The other side of the proxy."""
    with closing(Side(place.behind, diary)) as there:
        yield there
        place.proxy.flowing.set()


def test_handlers_end_before_others_begin_with_their_jobs(
    place: Place, here: Side, there: Side, diary: Diary
) -> None:
    jobs = [here.awaits.enqueue(), here.asks.enqueue()]
    with there.work() as cut_off:
        lost = cut_off.session
        until(lambda: len(diary.begun) == 2)
        place.proxy.flowing.clear()
        with here.work():
            assert [job.wait(timeout="30s") for job in jobs] == [2, 2]
        for job in jobs:
            diary.gave_way(job.id)
            assert (job.state, job.job.crashes) == (State.FINISHED, 1)
        place.proxy.flowing.set()
        assert here.plain.enqueue().wait(timeout="30s") == "done"
        assert cut_off.session != lost


def test_a_worker_whose_connections_alone_are_dead_keeps_its_jobs(
    place: Place, there: Side, diary: Diary
) -> None:
    there.awaits.enqueue()
    worker = there.app.worker(ttl=6)
    beats: list[int] = []
    worker.tell_of_beats(beats.append)
    worker.start()
    until(lambda: diary.begun and beats)
    session = worker.session
    place.proxy.strand_all()
    beats.clear()
    until(lambda: beats)
    assert there.plain.enqueue().wait(timeout="30s") == "done"
    assert {*beats} == {session}
    assert not diary.ended
    worker.stop(grace=0)


def test_who_enqueues_is_told_and_may_do_it_again_later(place: Place, there: Side) -> None:
    before = there.plain.enqueue()
    once = there.plain.options(ref="once", if_exists="return")
    place.proxy.flowing.clear()
    with pytest.raises(StoreUnavailable, match="1 s"):
        once.enqueue()
    place.proxy.flowing.set()
    job = once.enqueue()
    assert [each.id for each in there.app.desk.store.find(Filter())] == [before.id, job.id]
