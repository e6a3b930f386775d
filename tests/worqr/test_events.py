"""Events: pushed to the workers of a queue, with the step they tell of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.errors import Duplicate, LeaseLost, StoreUnavailable
from stoker.store import Filter, Store
from stoker.worqr import Done, Event, EventType, Worqr, watchman
from stoker.worqr.forms import Task
from tests.engines import VirtualClock
from tests.worqr.playing import SLOW, Ear, at_work, company, played

CANCEL, DELETE, DONE, WORK = EventType.CANCEL, EventType.DELETE, EventType.DONE, EventType.WORK
LONG = "x" * 2**20


def work(count: int, queue: str = "q") -> Event:
    return Event(queue, WORK, str(count))


async def begun(peer: Worqr) -> str:
    process = await peer.start_task("q")
    assert process is not None
    return process.id


@played
async def test_new_tasks_are_announced_with_their_number(store: Store) -> None:
    async with at_work(store, "ann") as (ann,), company(store, "bob") as (bob,):
        ear = Ear(ann)
        for tasks in ("one", ["two", "three"], b"four"):
            await bob.enqueue("q", tasks)
        assert [await ear.next() for _ in range(3)] == [work(1), work(2), work(1)]


@played
async def test_what_is_refused_is_not_announced(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        ear = Ear(ann)
        await ann.enqueue("q", "one", unique=True)
        with pytest.raises(Duplicate):
            await ann.enqueue("q", ["one", "two"], unique=True)
        await ann.delete_queue("q")
        assert [(await ear.next()).type for _ in range(2)] == [WORK, DELETE]


@played
async def test_tasks_that_wait_already_are_announced_to_whoever_begins_to_work(
    store: Store,
) -> None:
    async with at_work(store, "ann") as (ann,), company(store, "bob") as (bob,):
        await bob.enqueue("other", ["one", "two"])
        ear, elsewhere = Ear(bob), Ear(ann)
        await bob.start_worker()
        await bob.start_work("other")
        assert await ear.next() == work(2, "other")
        assert await bob.request_work("other") == 2
        assert await ear.next() == work(2, "other")
        await bob.enqueue("q", "one")
        assert await elsewhere.next() == work(1)


@played
async def test_asking_for_work_concerns_nobody_else(store: Store) -> None:
    async with at_work(store, "ann", "bob") as (ann, bob):
        ears = Ear(ann), Ear(bob)
        await ann.enqueue("q", "one")
        assert [await ear.next() for ear in ears] == [work(1), work(1)]
        assert await ann.request_work("q") == 1
        assert await ears[0].next() == work(1)
        await bob.delete_queue("q")
        assert (await ears[1].next()).type is DELETE
        assert await ann.request_work("q") == 0


@played
async def test_events_come_to_those_who_work_on_the_queue_and_as_long_as_they_do(
    store: Store,
) -> None:
    async with at_work(store, "ann") as (ann,):
        ear = Ear(ann)
        await ann.enqueue("other", "x")
        await ann.enqueue("q", "x")
        assert await ear.next() == work(1)
        await ann.stop_work("q")
        await ann.enqueue("q", "x")
        await ann.start_work("other")
        assert await ear.next() == work(1, "other")


# -- done, cancel, delete ------------------------------------------------------------------


@pytest.mark.parametrize("result", [0, False, "", None, {"pages": [1, 2]}, LONG])
@played
async def test_the_end_of_a_task_is_told_with_its_result(store: Store, result: Any) -> None:
    async with at_work(store, "ann", "bob") as (ann, bob):
        await ann.enqueue("q", "one")
        ear = Ear(bob)
        await ann.finish_task(await begun(ann), result)
        assert (await ear.until(DONE)).done == Done("ann", "one", result)


@pytest.mark.parametrize("task", ["one", b"\x00\xff", LONG, ""])
@played
async def test_the_end_of_a_task_without_a_result_tells_which_it_was(
    store: Store, task: Task
) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", task)
        ear = Ear(ann)
        await ann.finish_task(await begun(ann))
        event = await ear.until(DONE)
        assert event.done.content == task
        assert "result" not in str(event.message)


@played
async def test_the_message_of_a_done_is_json(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", "one")
        ear = Ear(ann)
        await ann.finish_task(await begun(ann), 7)
        assert (await ear.until(DONE)).message == '{"workerId":"ann","task":"one","result":7}'


@pytest.mark.parametrize("task", ["one", b"\x00\xff", LONG, ""])
@played
async def test_cancelling_is_told_with_the_task_also_if_there_is_none(
    store: Store, task: Task
) -> None:
    async with at_work(store, "ann") as (ann,), company(store, "bob") as (bob,):
        ear = Ear(ann)
        await bob.cancel_tasks("q", task)
        assert await ear.next() == Event("q", CANCEL, task)


@played
async def test_a_worker_hears_that_its_task_is_cancelled_and_finishes_it(store: Store) -> None:
    async with at_work(store, "ann") as (ann,), company(store, "bob") as (bob,):
        await ann.enqueue("q", ["one", "two"])
        process = await begun(ann)
        ear = Ear(ann)
        await bob.cancel_tasks("q", "one")
        assert await ear.until(CANCEL) == Event("q", CANCEL, "one")
        await ann.finish_task(process)
        assert (await ear.until(DONE)).done.content == "one"
        assert await bob.get_tasks("q") == ["two"]


@played
async def test_a_task_that_is_cancelled_by_another_door_is_cancelled_too(store: Store) -> None:
    async with at_work(store, "ann", worker_heartbeat_interval=0.02) as (ann,):
        await ann.enqueue("q", "one")
        await begun(ann)
        ear = Ear(ann)
        (job,) = store.find(Filter())
        Desk(store).control.cancel(job.id)
        assert await ear.until(CANCEL) == Event("q", CANCEL, "one")


@played
async def test_deleting_a_queue_is_told_with_nothing_else(store: Store) -> None:
    async with at_work(store, "ann") as (ann,), company(store, "bob") as (bob,):
        ear = Ear(ann)
        await bob.delete_queue("q")
        assert await ear.next() == Event("q", DELETE, "")


# -- tasks that come back ------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop_task", "stop_work", "stop_worker", "fail_worker", "close"])
@played
async def test_tasks_that_come_back_are_announced(store: Store, how: str) -> None:
    async with at_work(store, "ann", "bob") as (ann, bob):
        ear = Ear(bob)
        await ann.enqueue("q", ["one", "two", "three"])
        assert await ear.next() == work(3)
        processes = [await begun(ann), await begun(ann)]
        if how == "stop_task":
            await ann.stop_task(processes[0])
            assert (await ear.until(WORK)).count == 2
            await ann.stop_task(processes[1])
        elif how == "stop_work":
            await ann.stop_work("q")
        else:
            await getattr(ann, how)()
        while (await ear.until(WORK)).count < 3:
            pass
        assert await bob.get_tasks("q") == ["one", "two", "three"]


@played
async def test_the_tasks_of_a_dead_worker_come_first_and_are_announced(
    store: Store, clock: VirtualClock
) -> None:
    async with at_work(store, "ann", "bob", **SLOW) as (ann, bob):
        ear = Ear(bob)
        await bob.enqueue("q", ["one", "two", "three"])
        assert await ear.next() == work(3)
        lost, kept = await begun(ann), await begun(bob)
        for _ in range(4):
            clock.pass_(1)
            await bob.keep_worker_alive()
        assert await bob.cleanup_workers() == ["ann"]
        assert (await ear.until(WORK)).count == 2
        process = await bob.start_task("q")
        assert process is not None and process.task == "one"
        await bob.finish_task(kept)
        with pytest.raises(LeaseLost):
            await ann.finish_task(lost)


@played
async def test_work_of_which_nobody_was_told_is_found_by_looking(store: Store) -> None:
    async with at_work(store, "ann", worker_cleanup_interval=0.02) as (ann,):
        await ann.enqueue("q", "one")
        ear = Ear(ann)
        assert [await ear.until(WORK) for _ in range(3)] == [work(1)] * 3


# -- listening -----------------------------------------------------------------------------


@played
async def test_callbacks_plain_and_async_are_called_until_they_are_taken_off(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[tuple[str, Event]] = []
    both = asyncio.Event()

    def plain(event: Event) -> None:
        heard.append(("plain", event))

    async def slow(event: Event) -> None:
        heard.append(("async", event))
        both.set()

    def faulty(_: Event) -> None:
        raise ZeroDivisionError

    async with at_work(store, "ann") as (ann,):
        ann.on("q", faulty)
        ann.on("q", plain)
        ann.on(..., slow)
        ann.on("other", faulty)
        await ann.enqueue("q", "one")
        await both.wait()
        assert heard == [("plain", work(1)), ("async", work(1))]
        ann.off("q", plain)
        both.clear()
        await ann.enqueue("q", ["two", "three"])
        await both.wait()
        assert heard[2:] == [("async", work(2))]
    assert caplog.text.count("a listener failed") == 2


@played
async def test_a_loop_over_events_ends_with_the_peer(store: Store) -> None:
    heard = []
    async with at_work(store, "ann") as (ann,):
        events = aiter(ann)
        for number in range(1, 4):
            await ann.enqueue("q", ["x"] * number)
            heard.append((await anext(events)).count)
        of_other = ann.events("other")
    assert heard == [1, 2, 3]
    assert [event async for event in events] == [event async for event in of_other] == []
    assert [event async for event in ann] == []


@played
async def test_in_debug_mode_the_age_of_processes_is_told(store: Store) -> None:
    async with at_work(store, "ann", debug_mode=True, debug_interval=0.01) as (ann,):
        await ann.enqueue("q", "one")
        process = await begun(ann)
        event = await anext(ann.events(None))
        assert event.type is EventType.DEBUG
        assert str(event.message).startswith(f'{{"jobCount":1,"processes":{{"{process}":')


@played
async def test_trouble_with_the_store_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchman, "_TROUBLE_PAUSE", 0.01)
    async with at_work(store, "ann", worker_cleanup_interval=0.02) as (ann,):
        ear = Ear(ann)

        def away() -> None:
            raise StoreUnavailable("the store is away")

        with monkeypatch.context() as trouble:
            trouble.setattr(store, "sessions", away)
            event = await ear.until(EventType.ERROR)
        assert (event.queue, event.message) == (None, "the store is away")
        await ann.enqueue("q", "one")
        assert await ear.until(WORK) == work(1)
