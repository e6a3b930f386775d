"""Those who wait for jobs: in line, woken by the bell, and without a poll each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from stoker.doors.http.waiting import Found, Waiting, Wish
from stoker.errors import SessionLost, StoreUnavailable
from stoker.kernel.job import Job

SECOND = 1_000_000


class Shelf:
    """Jobs that are handed out, and a count of how often somebody asked."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque()
        self.asked = 0
        self.claims = 0
        self.arrives_at = 0
        """When somebody asks for this time, a job is put there just before."""
        self.given_back: list[Job] = []
        self.next_due: int | None = None
        self.trouble: Exception | None = None
        self.dead: set[int] = set()
        self.slow = asyncio.Event()
        self.slow.set()
        self.waiting = Waiting(self.ask, self.given_back.extend, lambda: 0)

    def ask(self, wishes: list[Wish], done: Callable[[Found | BaseException], None]) -> None:
        self.asked += 1
        self.claims += len(wishes)
        task = asyncio.ensure_future(self._serve(wishes, done))
        task.add_done_callback(lambda done: done.result())

    async def _serve(
        self, wishes: list[Wish], done: Callable[[Found | BaseException], None]
    ) -> None:
        number = self.asked
        await self.slow.wait()
        if number == self.arrives_at:
            self.put(b"1")
        if self.trouble is not None:
            done(self.trouble)
            return
        due, self.next_due = self.next_due, None
        done(Found([self._grant(wish) for wish in wishes], due))

    def _grant(self, wish: Wish) -> Sequence[Job] | BaseException:
        if wish.session in self.dead:
            return SessionLost("dead")
        return [self.jobs.popleft() for _ in range(min(wish.limit, len(self.jobs)))]

    def seek(
        self, *queues: str, limit: int = 1, seconds: float = 60.0, session: int | None = None
    ) -> asyncio.Task[Sequence[Job]]:
        wish = Wish(queues or ("q",), limit, session, None)
        return asyncio.ensure_future(self.waiting.claim(wish, seconds))

    def put(self, *payloads: bytes) -> None:
        self.jobs.extend(Job("q", payload=payload) for payload in payloads)


async def settled() -> None:
    """All that is ready to happen has happened."""
    for _ in range(200):
        await asyncio.sleep(0)


def scene(play: Callable[[Shelf], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test in an event loop of its own."""

    async def begun() -> None:
        await play(Shelf())

    def test() -> None:
        asyncio.run(begun())

    test.__name__ = play.__name__
    return test


def payloads(jobs: Sequence[Job]) -> list[bytes]:
    return [job.payload for job in jobs]


@scene
async def test_what_is_there_is_given_at_once(shelf: Shelf) -> None:
    shelf.put(b"1", b"2", b"3")
    assert payloads(await shelf.seek(limit=2)) == [b"1", b"2"]
    assert shelf.claims == 1
    assert not shelf.waiting.patient


@scene
async def test_a_job_wakes_the_first_in_line_and_costs_next_to_nothing(shelf: Shelf) -> None:
    tasks = [shelf.seek() for _ in range(1000)]
    await settled()
    before = shelf.claims
    shelf.put(b"1")
    shelf.waiting.rung({"q"})
    await settled()
    assert [task.done() for task in tasks[:2]] == [True, False]
    assert shelf.claims - before <= 3
    shelf.waiting.close()
    assert [len(jobs) for jobs in await asyncio.gather(*tasks)] == [1] + [0] * 999


@scene
async def test_many_jobs_are_shared_in_the_order_of_the_line(shelf: Shelf) -> None:
    tasks = [shelf.seek() for _ in range(100)]
    await settled()
    before = shelf.asked
    shelf.put(*(b"%d" % n for n in range(100)))
    shelf.waiting.rung({"q"})
    given = await asyncio.gather(*tasks)
    assert [int(jobs[0].payload) for jobs in given] == list(range(100))
    assert shelf.asked - before < 10


@scene
async def test_only_those_concerned_are_woken(shelf: Shelf) -> None:
    tasks = [shelf.seek("a"), shelf.seek("b*", "c")]
    await settled()
    before = shelf.claims
    shelf.waiting.rung({"x", "B"})
    assert shelf.claims == before
    shelf.put(b"1")
    shelf.waiting.rung({"x", "beta"})
    await settled()
    assert [task.done() for task in tasks] == [False, True]
    shelf.waiting.close()
    await asyncio.gather(*tasks)


@scene
async def test_a_ring_while_somebody_asks_is_not_missed(shelf: Shelf) -> None:
    shelf.slow.clear()
    task = shelf.seek()
    await settled()
    shelf.waiting.rung({"q"})
    shelf.arrives_at = 2
    shelf.slow.set()
    assert payloads(await task) == [b"1"]


@scene
async def test_whoever_waits_in_vain_gets_nothing_in_time(shelf: Shelf) -> None:
    assert payloads(await shelf.seek(seconds=0.01)) == []
    assert payloads(await shelf.seek(seconds=0)) == []
    assert not shelf.waiting.patient


@scene
async def test_the_next_due_job_wakes_without_a_ring(shelf: Shelf) -> None:
    shelf.next_due = SECOND // 50
    task = shelf.seek()
    await settled()
    shelf.put(b"1")
    assert payloads(await task) == [b"1"]


@scene
async def test_what_comes_for_somebody_who_is_gone_goes_back(shelf: Shelf) -> None:
    shelf.slow.clear()
    task = shelf.seek()
    await settled()
    task.cancel()
    await settled()
    shelf.put(b"1")
    shelf.slow.set()
    await settled()
    assert payloads(shelf.given_back) == [b"1"]
    assert not shelf.waiting.patient


@scene
async def test_whoever_goes_in_the_moment_of_the_answer_loses_no_job(shelf: Shelf) -> None:
    task = shelf.seek()
    await settled()
    shelf.put(b"1")
    shelf.waiting.rung({"q"})
    for _ in range(50):
        await asyncio.sleep(0)
        if not shelf.jobs:
            task.cancel()  # its answer is there, and it has not read it
            break
    await settled()
    kept = payloads(task.result()) if not task.cancelled() else []
    assert [*kept, *payloads(shelf.given_back)] == [b"1"]


@scene
async def test_a_dead_session_does_not_hold_up_the_line(shelf: Shelf) -> None:
    dying, living = shelf.seek(session=7), shelf.seek()
    await settled()
    shelf.dead.add(7)
    shelf.put(b"1")
    shelf.waiting.rung({"q"})
    assert payloads(await living) == [b"1"]
    with pytest.raises(SessionLost):
        await dying


@scene
async def test_trouble_is_told_to_those_who_asked(shelf: Shelf) -> None:
    shelf.trouble = StoreUnavailable("down")
    with pytest.raises(StoreUnavailable):
        await shelf.seek()
    assert not shelf.waiting.patient


@scene
async def test_nobody_waits_at_a_door_that_closes(shelf: Shelf) -> None:
    tasks = [shelf.seek(), shelf.seek("other")]
    await settled()
    shelf.waiting.close()
    assert [payloads(jobs) for jobs in await asyncio.gather(*tasks)] == [[], []]
    assert payloads(await shelf.seek()) == []
