"""Queues and tasks: in, out, in order, unchanged, and gone without a trace."""

from __future__ import annotations

import asyncio

import pytest

from stoker.errors import BadInput, Duplicate, LeaseLost, NotFound, Refused
from stoker.kernel.change import Change
from stoker.kernel.hours import Maintenance
from stoker.kernel.queue import QueueSettings
from stoker.store import Filter, Store
from stoker.worqr import Worqr
from stoker.worqr.forms import Task
from tests.engines import SECOND, START, VirtualClock
from tests.worqr.playing import at_work, company, played

TASKS: dict[str, Task] = {
    "empty": "",
    "empty bytes": b"",
    "newlines": "a\nb\r\n",
    "not ASCII": "Grüße ☃ 🎉",
    "JSON": '{"a": [1, "2"]}',
    "NUL": "a\0b",
    "bytes": bytes(range(256)),
    "1 MB": "x" * 2**20,
}


async def drained(peer: Worqr, queue: str = "q") -> list[Task]:
    """All tasks of a queue, taken and finished one after the other."""
    tasks = []
    while process := await peer.start_task(queue):
        tasks.append(process.task)
        await peer.finish_task(process.id)
    return tasks


@played
async def test_tasks_come_out_as_they_went_in(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        for task in TASKS.values():
            await ann.enqueue("q", task)
        assert await ann.get_tasks("q") == list(TASKS.values())
        assert await drained(ann) == list(TASKS.values())


@played
async def test_tasks_are_served_first_in_first_out_and_a_list_in_its_order(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", "one")
        await ann.enqueue("q", ["two", "three", "two"])
        await ann.enqueue("q", ())
        assert await ann.peek_queue("q") == "one"
        assert await ann.count_queue("q") == 4
        assert await ann.get_tasks("q", newest_first=True) == ["two", "three", "two", "one"]
        assert await drained(ann) == ["one", "two", "three", "two"]
        assert await ann.peek_queue("q") is None
        assert await ann.count_queue("q") == 0


@played
async def test_a_long_queue_is_shown_and_deleted_whole(store: Store) -> None:
    async with company(store, "ann") as (ann,):
        tasks = [f"task {number}" for number in range(1201)]
        await ann.enqueue("q", tasks)
        assert await ann.get_tasks("q") == tasks
        assert await ann.delete_queue("q") == 1201
        assert await ann.get_tasks("q") == []


@played
async def test_queues_with_tasks_are_listed_by_their_names(store: Store) -> None:
    names = ["a:b", "a_b", "a_work", "with * [and] ?", "☃", "%3A"]
    async with company(store, "ann") as (ann,):
        for name in names:
            await ann.enqueue(name, "x")
        assert sorted(await ann.get_queues()) == sorted(names)
        assert await ann.count_queue("unheard of") == 0


@pytest.mark.parametrize("prefixes", [("a", "a:b"), ("a_b", "a"), ("a*", "ab"), ("%", "%25")])
@played
async def test_peers_with_different_prefixes_do_not_see_each_other(
    store: Store, prefixes: tuple[str, str]
) -> None:
    left, right = prefixes
    async with (
        company(store, "ann", prefix=left) as (ann,),
        company(store, "bob", prefix=right) as (bob,),
    ):
        await ann.enqueue("b:q", "left")
        await bob.enqueue("q", "right")
        await ann.start_worker()
        assert (await ann.get_queues(), await bob.get_queues()) == (["b:q"], ["q"])
        assert (await ann.get_workers(), await bob.get_workers()) == (["ann"], [])
        await ann.delete_queue("q")
        assert await bob.count_queue("q") == 1


# -- taking --------------------------------------------------------------------------------


@played
async def test_a_process_has_an_id_of_its_own_and_its_task_waits_no_more(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", ["same", "same"])
        first, second = await ann.start_task("q"), await ann.start_task("q")
        assert first is not None and second is not None
        assert (first.task, second.task) == ("same", "same")
        assert first.id != second.id
        assert await ann.count_queue("q") == 0


@played
async def test_taking_from_an_empty_queue_leaves_no_trace(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        assert await ann.start_task("q") is None
        assert store.survey() == []


@played
async def test_only_a_worker_of_the_queue_may_take_from_it(store: Store) -> None:
    async with company(store, "ann") as (ann,):
        await ann.enqueue("q", "one")
        with pytest.raises(Refused, match="does not work on 'q'; call start_work first"):
            await ann.start_task("q")
        await ann.start_worker()
        await ann.start_work("other")
        with pytest.raises(Refused, match="does not work on 'q'"):
            await ann.start_task("q")


@played
async def test_two_workers_share_all_tasks_and_never_one(store: Store) -> None:
    tasks = {f"task {number}" for number in range(200)}
    async with at_work(store, "ann", "bob") as peers:
        await peers[0].enqueue("q", sorted(tasks))
        taken = await asyncio.gather(*(drained(peer) for peer in (*peers, *peers)))
        assert sorted(task for share in taken for task in share) == sorted(tasks)
        assert all(taken)


@played
async def test_a_task_that_is_stopped_is_the_next_again(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", ["one", "two", "three"])
        processes = [await ann.start_task("q") for _ in range(2)]
        for process in reversed(processes):
            assert process is not None
            await ann.stop_task(process.id)
        assert await ann.get_tasks("q") == ["one", "two", "three"]
        assert await ann.peek_queue("q") == "one"


@played
async def test_any_peer_may_end_a_process_by_its_id(store: Store) -> None:
    async with at_work(store, "ann") as (ann,), company(store, "bob") as (bob,):
        await ann.enqueue("q", ["one", "two"])
        one, two = await ann.start_task("q"), await ann.start_task("q")
        assert one is not None and two is not None
        await bob.finish_task(one.id)
        await bob.stop_task(two.id)
        assert await bob.get_tasks("q") == ["two"]
        with pytest.raises(LeaseLost):
            await ann.finish_task(one.id)


@pytest.mark.parametrize("unknown", ["", "q", "q_", "q_1-", "q_999-1", "q_x-y", "q_1-2-3"])
@played
async def test_a_process_that_there_is_not_cannot_be_ended(store: Store, unknown: str) -> None:
    async with company(store, "ann") as (ann,):
        await ann.enqueue("q", "", unique=True)
        for end in (ann.finish_task, ann.stop_task):
            with pytest.raises(NotFound, match="there is no process"):
                await end(unknown)
        with pytest.raises(Duplicate):
            await ann.enqueue("q", "", unique=True)


@played
async def test_a_process_cannot_be_ended_twice(store: Store) -> None:
    async with at_work(store, "ann", "bob") as (ann, bob):
        await ann.enqueue("q", "one")
        process = await ann.start_task("q")
        assert process is not None
        await ann.finish_task(process.id)
        for peer in (ann, bob):
            with pytest.raises(NotFound):
                await peer.finish_task(process.id)


@played
async def test_processes_are_found_by_their_task_whoever_has_them(store: Store) -> None:
    async with at_work(store, "ann", "bob") as (ann, bob):
        await ann.enqueue("q", ["same", "same", "other"])
        await ann.enqueue("q", b"same")
        ids = []
        for peer in (ann, bob, ann, bob):
            process = await peer.start_task("q")
            assert process is not None
            ids.append(process.id)
        assert sorted(await bob.get_matching_processes("same")) == sorted(ids[:2])
        assert await bob.get_matching_processes(b"same") == ids[3:]
        assert await bob.get_matching_processes("unheard of") == []


@played
async def test_a_task_that_nobody_waits_for_any_more_goes_back(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", "one")
        waiting = asyncio.ensure_future(ann.start_task("q"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        while (process := await ann.start_task("q")) is None:
            pass
        assert process.task == "one"


@pytest.mark.parametrize("odd", [7, None, ["a", 7], "\ud800"])
@played
async def test_what_is_no_task_is_refused(store: Store, odd: object) -> None:
    async with company(store, "ann") as (ann,):
        with pytest.raises(BadInput):
            await ann.enqueue("q", odd)  # type: ignore[arg-type]
        assert store.find(Filter()) == []


@played
async def test_a_result_that_cannot_be_told_leaves_the_task_in_work(store: Store) -> None:
    async with company(store, "ann") as (ann,):
        await ann.start_worker()
        await ann.start_work("q")
        await ann.enqueue("q", "a")
        process = await ann.start_task("q")
        assert process is not None
        with pytest.raises(BadInput, match="the result cannot travel as JSON"):
            await ann.finish_task(process.id, result=object())
        await ann.finish_task(process.id, result={"pages": 3})
        assert store.find(Filter()) == []


# -- cancelling and deleting ---------------------------------------------------------------


@played
async def test_cancelling_removes_all_waiting_tasks_that_are_equal(store: Store) -> None:
    async with company(store, "ann") as (ann,):
        await ann.enqueue("q", ["a", "b", "a", "ab", "a"])
        await ann.enqueue("other", "a")
        assert await ann.cancel_tasks("q", "a") == 3
        assert await ann.get_tasks("q") == ["b", "ab"]
        assert await ann.count_queue("other") == 1
        assert await ann.cancel_tasks("q", "unheard of") == 0


@pytest.mark.parametrize("end", ["finish", "stop", "fail"])
@played
async def test_a_running_task_that_was_cancelled_does_not_come_back(store: Store, end: str) -> None:
    async with at_work(store, "ann", "bob") as (ann, bob):
        await ann.enqueue("q", ["one", "two"])
        process = await ann.start_task("q")
        assert process is not None
        assert await bob.cancel_tasks("q", "one") == 1
        if end == "finish":
            await ann.finish_task(process.id)
        elif end == "stop":
            await ann.stop_task(process.id)
        else:
            await bob.fail_worker("ann")
        assert await bob.get_tasks("q") == ["two"]


@played
async def test_deleting_a_queue_leaves_what_is_in_work(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", ["one", "two", "three"])
        process = await ann.start_task("q")
        assert process is not None
        assert await ann.delete_queue("q") == 2
        assert await ann.get_queues() == []
        await ann.stop_task(process.id)
        assert await ann.get_tasks("q") == ["one"]
        assert await ann.delete_queue("unheard of") == 0


# -- unique --------------------------------------------------------------------------------


@played
async def test_a_unique_task_is_refused_while_another_waits_or_is_in_work(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", "one", unique=True)
        with pytest.raises(Duplicate, match="a unique task of queue 'q' is there already"):
            await ann.enqueue("q", "one", True)
        await ann.enqueue("other", "one", unique=True)
        await ann.enqueue("q", b"one", unique=True)
        await ann.enqueue("q", "one")
        process = await ann.start_task("q")
        assert process is not None
        with pytest.raises(Duplicate):
            await ann.enqueue("q", "one", unique=True)
        await ann.stop_task(process.id)
        with pytest.raises(Duplicate):
            await ann.enqueue("q", "one", unique=True)


@pytest.mark.parametrize("how", ["finish", "cancel", "delete"])
@played
async def test_a_unique_task_may_be_enqueued_again_when_the_other_is_gone(
    store: Store, how: str
) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", "one", unique=True)
        if how == "cancel":
            await ann.cancel_tasks("q", "one")
        elif how == "delete":
            await ann.delete_queue("q")
        else:
            await drained(ann)
        await ann.enqueue("q", "one", unique=True)
        assert await ann.get_tasks("q") == ["one"]


@played
async def test_only_the_end_of_the_unique_one_makes_room_for_another(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", "one")
        await ann.enqueue("q", "one", unique=True)
        plain = await ann.start_task("q")
        assert plain is not None
        await ann.finish_task(plain.id)
        with pytest.raises(Duplicate):
            await ann.enqueue("q", "one", unique=True)


@played
async def test_a_list_of_unique_tasks_goes_in_whole_or_not_at_all(store: Store) -> None:
    async with company(store, "ann") as (ann,):
        await ann.enqueue("q", ["one", "two"], unique=True)
        for tasks in (["three", "one"], ["four", "four"]):
            with pytest.raises(Duplicate):
                await ann.enqueue("q", tasks, unique=True)
        assert await ann.get_tasks("q") == ["one", "two"]


@played
async def test_of_many_unique_ones_at_once_one_is_taken_in(store: Store) -> None:
    async with company(store, "ann", "bob") as peers:
        tries = [peer.enqueue("q", "one", unique=True) for peer in peers for _ in range(10)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(result is None for result in results) == 1
        assert sum(isinstance(result, Duplicate) for result in results) == 19
        assert await peers[0].get_tasks("q") == ["one"]


# -- nothing is left -----------------------------------------------------------------------


@played
async def test_when_all_is_done_nothing_is_left_in_the_store(store: Store) -> None:
    async with at_work(store, "ann", "bob") as (ann, bob):
        await ann.enqueue("q", ["one", "two", "three"])
        await ann.enqueue("q", "four", unique=True)
        await drained(bob)
        assert store.find(Filter()) == []
    assert (store.survey(), store.sessions(), store.notes()) == ([], [], {})


@played
async def test_many_at_once_are_as_good_as_one_after_the_other(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await asyncio.gather(*(ann.enqueue("q", f"task {number}") for number in range(30)))
        processes = await asyncio.gather(*(ann.start_task("q") for _ in range(40)))
        found = [process for process in processes if process is not None]
        assert len({process.id for process in found}) == len(found) == 30
        await asyncio.gather(*(ann.finish_task(process.id) for process in found))
        assert store.find(Filter()) == []


@played
async def test_a_closed_queue_hands_no_task_out(store: Store, clock: VirtualClock) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", "one")
        (queue,) = store.names("*")
        closed = QueueSettings(maintenance=(Maintenance(start=0, end=START + 2 * SECOND),))
        store.transact([Change(queues=((queue, closed),))])
        clock.pass_(1)
        assert await ann.start_task("q") is None
        clock.pass_(1)
        assert await drained(ann) == ["one"]
