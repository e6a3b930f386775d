"""Workers: started, beating, dead, found by their peers; and what they have in hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.desk.workers import survey_workers
from stoker.errors import BadInput, LeaseLost, NotFound, Refused, SessionLost
from stoker.store import Store
from stoker.worqr import Event, EventType, Worqr
from tests.engines import VirtualClock
from tests.worqr.playing import SLOW, Ear, at_work, company, played

FAILED = EventType.FAILED


@played
async def test_a_worker_that_was_started_is_listed_with_its_queues(store: Store) -> None:
    async with company(store, "ann", "bob") as (ann, bob):
        assert (ann.get_worker_id(), await bob.get_workers()) == ("ann", [])
        await ann.start_worker()
        await ann.start_worker()
        await bob.start_worker()
        assert sorted(await bob.get_workers()) == ["ann", "bob"]
        await ann.start_work("q")
        await ann.start_work("other")
        await ann.start_work("q")
        assert sorted(await bob.get_working_queues("ann")) == ["other", "q"]
        await ann.stop_work("q")
        assert await ann.get_working_queues() == ["other"]
        assert await bob.get_working_queues("nobody") == []
        await ann.stop_worker()
        assert await bob.get_workers() == ["bob"]


@played
async def test_peers_are_seen_by_the_other_doors_of_the_house(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", "one")
        await ann.start_task("q")
        (view,) = survey_workers(store)
        assert (view.name, view.info.queues, view.held) == ("ann", ("worqr:q",), 1)


@played
async def test_without_an_id_a_worker_has_one_of_its_own(store: Store) -> None:
    ids = {Worqr(store).get_worker_id() for _ in range(3)}
    assert {len(each) for each in ids} == {36}
    assert len(ids) == 3


@played
async def test_work_begins_with_a_worker_that_was_started(store: Store) -> None:
    async with company(store, "ann") as (ann,):
        for act in (ann.start_work("q"), ann.stop_work("q"), ann.stop_worker()):
            with pytest.raises(Refused, match="not started; call start_worker first"):
                await act
        with pytest.raises(Refused, match="not started"):
            await ann.keep_worker_alive()


@played
async def test_heartbeats_come_by_themselves(store: Store, clock: VirtualClock) -> None:
    async with at_work(store, "ann", worker_heartbeat_interval=0.01) as (ann,):
        for _ in range(5):
            clock.pass_(2)
            told = clock.now + 3_000_000
            while store.sessions()[0].expires_at < told:
                await asyncio.sleep(0.001)
        assert await ann.cleanup_workers() == []


@played
async def test_a_worker_that_was_taken_for_dead_is_told_and_must_be_started_again(
    store: Store, clock: VirtualClock
) -> None:
    async with at_work(store, "ann", worker_heartbeat_interval=0.02) as (ann,):
        await ann.enqueue("q", "one")
        process = await ann.start_task("q")
        assert process is not None
        ear = Ear(ann)
        clock.pass_(3600)
        assert await ear.until(FAILED) == Event(None, FAILED, "ann")
        with pytest.raises(Refused, match="does not work on 'q'"):
            await ann.start_task("q")
        with pytest.raises(Refused, match="not started"):
            await ann.start_work("q")
        await ann.cleanup_workers()
        with pytest.raises(LeaseLost):
            await ann.finish_task(process.id)
        await ann.start_worker()
        await ann.start_work("q")
        again = await ann.start_task("q")
        assert again is not None and again.task == "one"
        assert again.id != process.id
        assert await ann.get_workers() == ["ann"]


@pytest.mark.parametrize("verb", ["keep_worker_alive", "start_work", "start_task"])
@played
async def test_whatever_a_dead_worker_does_tells_it_that_it_is_dead(
    store: Store, clock: VirtualClock, verb: str
) -> None:
    async with at_work(store, "ann", **SLOW) as (ann,):
        ear = Ear(ann)
        clock.pass_(3)
        with pytest.raises(SessionLost, match="start it again"):
            await (getattr(ann, verb)() if verb == "keep_worker_alive" else getattr(ann, verb)("q"))
        assert await ear.next() == Event(None, FAILED, "ann")


@played
async def test_a_worker_dies_at_the_end_of_its_timeout_and_not_before(
    store: Store, clock: VirtualClock
) -> None:
    async with at_work(store, "ann", **SLOW), company(store, "bob") as (bob,):
        clock.now += 3_000_000 - 1
        assert await bob.cleanup_workers() == []
        clock.now += 1
        assert await bob.cleanup_workers() == ["ann"]
        assert await bob.get_workers() == []


@played
async def test_a_dead_one_is_found_among_a_hundred(store: Store, clock: VirtualClock) -> None:
    desk = Desk(store)
    for _ in range(100):
        desk.dispatch.open_session("no peer", '{"worqr": 7}', ttl=10**9)
    async with at_work(store, "ann", **SLOW) as (ann,):
        await ann.enqueue("q", "one")
        await ann.start_task("q")
        async with company(store, "bob") as (bob,):
            clock.pass_(3)
            assert await bob.cleanup_workers() == ["ann"]
            assert await bob.get_tasks("q") == ["one"]
    assert len(store.sessions()) == 100


@played
async def test_peers_look_after_each_other_also_if_they_only_enqueue(
    store: Store, clock: VirtualClock
) -> None:
    async with at_work(store, "ann", **SLOW) as (ann,):
        await ann.enqueue("q", "one")
        await ann.start_task("q")
        async with company(store, "bob", worker_cleanup_interval=0.02) as (bob,):
            clock.pass_(3)
            while await bob.count_queue("q") == 0:
                await asyncio.sleep(0.001)


@played
async def test_a_permanent_worker_never_dies_but_can_be_failed(
    store: Store, clock: VirtualClock
) -> None:
    async with at_work(store, "ann", worker_timeout=-1, **SLOW) as (ann,):
        await ann.enqueue("q", "one")
        process = await ann.start_task("q")
        assert process is not None
        async with company(store, "bob") as (bob,):
            clock.pass_(365 * 86400)
            assert await bob.cleanup_workers() == []
            assert await bob.get_workers() == ["ann"]
            await bob.fail_worker("ann")
            assert await bob.get_tasks("q") == ["one"]
        with pytest.raises(LeaseLost):
            await ann.finish_task(process.id)


@pytest.mark.parametrize("who", ["itself", "a peer"])
@played
async def test_failing_a_worker_takes_its_tasks_and_nobody_elses(store: Store, who: str) -> None:
    async with at_work(store, "ann", "bob") as (ann, bob):
        await ann.enqueue("q", ["one", "two", "three", "four"])
        held = [await peer.start_task("q") for peer in (ann, bob, ann)]
        await (ann.fail_worker() if who == "itself" else bob.fail_worker("ann"))
        assert await bob.get_workers() == ["bob"]
        assert await bob.get_tasks("q") == ["one", "three", "four"]
        for process, is_lost in zip(held, (True, False, True), strict=True):
            assert process is not None
            if is_lost:
                with pytest.raises(LeaseLost):
                    await ann.finish_task(process.id)
            else:
                await bob.finish_task(process.id)


@played
async def test_a_worker_that_there_is_not_cannot_be_failed(store: Store) -> None:
    async with company(store, "ann") as (ann,):
        for worker in (None, "nobody"):
            with pytest.raises(NotFound, match="there is no worker"):
                await ann.fail_worker(worker)


@played
async def test_stopping_to_work_on_a_queue_gives_back_what_is_in_hand_of_it(store: Store) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.start_work("other")
        await ann.enqueue("q", ["one", "two", "three"])
        await ann.enqueue("other", "four")
        held = [await ann.start_task(queue) for queue in ("q", "other", "q")]
        await ann.stop_work("q")
        assert await ann.get_tasks("q") == ["one", "two", "three"]
        assert await ann.get_tasks("other") == []
        assert held[1] is not None
        await ann.finish_task(held[1].id)


@played
async def test_a_persistent_task_is_held_by_one_worker_for_as_long_as_it_lives(
    store: Store, clock: VirtualClock
) -> None:
    async with at_work(store, "ann", "bob", worker_timeout=-1, **SLOW) as (ann, bob):
        await ann.enqueue("q", "the one connection")
        process = await ann.start_task("q")
        clock.pass_(30 * 86400)
        await bob.cleanup_workers()
        assert await bob.start_task("q") is None
        await bob.fail_worker("ann")
        taken = await bob.start_task("q")
        assert process is not None and taken is not None
        assert taken.task == process.task


@played
async def test_closing_gives_everything_back_and_ends_the_peer(store: Store) -> None:
    async with company(store, "bob") as (bob,):
        ann = await Worqr(store, worker_id="ann").open()
        await ann.start_worker()
        await ann.start_work("q")
        await ann.enqueue("q", "one")
        await ann.start_task("q")
        await ann.close()
        await ann.close()
        assert await bob.get_tasks("q") == ["one"]
        assert await bob.get_workers() == []
        with pytest.raises(Refused, match="this peer is closed"):
            await ann.enqueue("q", "two")


@played
async def test_a_peer_opens_by_itself_once(store: Store) -> None:
    peer = Worqr(store)
    await asyncio.gather(*(peer.enqueue("q", f"{number}") for number in range(10)))
    assert await peer.count_queue("q") == 10
    await peer.close()
    unused = Worqr(store)
    await unused.close()


# -- names ---------------------------------------------------------------------------------

NAMES = {
    "startTask": "start_task",
    "dequeue": "start_task",
    "stopTask": "stop_task",
    "stopProcess": "stop_task",
    "finishTask": "finish_task",
    "finishProcess": "finish_task",
    "cancelTasks": "cancel_tasks",
    "startWorker": "start_worker",
    "keepWorkerAlive": "keep_worker_alive",
    "stopWorker": "stop_worker",
    "failWorker": "fail_worker",
    "startWork": "start_work",
    "stopWork": "stop_work",
    "requestWork": "request_work",
    "getQueues": "get_queues",
    "peekQueue": "peek_queue",
    "countQueue": "count_queue",
    "getTasks": "get_tasks",
    "deleteQueue": "delete_queue",
    "getMatchingProcesses": "get_matching_processes",
    "getWorkerId": "get_worker_id",
    "getWorkers": "get_workers",
    "getWorkingQueues": "get_working_queues",
    "cleanupWorkers": "cleanup_workers",
}


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_has_the_name_of_the_protocol_too(name: str) -> None:
    assert getattr(Worqr, name) is getattr(Worqr, NAMES[name])


# -- settings ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "trouble"),
    [
        ({"prefix": ""}, "prefix cannot be empty"),
        ({"worker_id": ""}, "worker_id cannot be empty"),
        ({"worker_timeout": 0}, "worker_timeout must be more than 0, or negative"),
        ({"worker_heartbeat_interval": 0}, "worker_heartbeat_interval must be more than 0"),
        ({"worker_cleanup_interval": -1}, "-1 is negative"),
        ({"worker_timeout": 1.0}, "worker_heartbeat_interval must be shorter than worker_timeout"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    options: dict[str, float | str], trouble: str
) -> None:
    with pytest.raises(BadInput, match=trouble):
        Worqr("memory:", **options)


def test_the_store_and_the_options_may_come_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORQR_PREFIX", "from the environment")
    monkeypatch.delenv("STOKER_STORE", raising=False)
    file = tmp_path / "settings.env"
    file.write_text(
        "# where the tasks are\nSTOKER_STORE = 'memory:'\n\nWORQR_PREFIX=from the file\n"
        'export WORQR_WORKER_ID="ann"\nWORQR_WORKER_TIMEOUT=-1\nWORQR_DEBUG_MODE=true\nOTHER=x\n',
        encoding="utf-8",
    )
    peer = Worqr.from_env(file)
    settings = peer._settings
    assert (peer._store, peer.get_worker_id()) == ("memory:", "ann")
    assert settings.prefix == "from the environment"
    assert (settings.worker_timeout, settings.debug_mode) == (-1.0, True)


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("WORQR_WORKER_TIMEOUT=soon", "cannot read the WORQR_ variables"),
        ("WORQR_TIMEOUT=3", "there is no WORQR_TIMEOUT; there are WORQR_PREFIX"),
        ("WORQR_PREFIX", "line 1: write NAME=value"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, text: str, trouble: str) -> None:
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=trouble):
        Worqr.from_env(tmp_path / ".env")


@played
async def test_a_url_names_a_store_that_is_closed_with_the_peer(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with Worqr(url) as ann, Worqr(url) as bob:
        await ann.enqueue("q", "one")
        assert await bob.get_tasks("q") == ["one"]


@played
async def test_a_url_that_names_no_store_is_an_error_at_opening() -> None:
    with pytest.raises(BadInput, match="no store is called"):
        await Worqr("nonsense:").enqueue("q", "one")
