"""A worker in Jobber's manner: acceptance, line by line."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from stoker.desk import Desk
from stoker.doors.http.jobber.worker import JobberWorker, PostResult
from stoker.errors import BadInput, LeaseLost
from stoker.kernel.job import State
from stoker.store import Filter
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.http.client import Api

Make = Callable[..., JobberWorker]


@pytest.fixture
def make(desk: Desk) -> Make:
    """A worker of the type `t`, who has 15 seconds for a job."""

    def worker(handle: Callable[[str], str], *post: PostResult) -> JobberWorker:
        told = post[0] if post else (lambda result, error: None)
        return JobberWorker(desk, " t ", visibility="15s", handle=handle, post_result=told)

    return worker


def noting(seen: list[str]) -> Callable[[str], str]:
    """A handler that notes what it got."""

    def handle(text: str) -> str:
        seen.append(text)
        return "ok"

    return handle


def put(api: Api, count: int) -> None:
    for number in range(count):
        api.done("POST", "/jobber/queue", {"type": "t", "payload": {"n": number}})


def test_three_jobs_are_handled_once_each_and_in_order(api: Api, make: Make) -> None:
    put(api, 3)
    seen: list[str] = []
    worker = make(noting(seen))
    assert [worker.work() for _ in range(4)] == [True, True, True, False]
    assert seen == ['{"n":0}', '{"n":1}', '{"n":2}']
    told = api.get("/monitor/queues/status").json
    assert (told["in_process_queue"], told["queues"][0]["done"]) == (0, 3)


def test_many_workers_share_the_jobs(api: Api, make: Make) -> None:
    put(api, 40)
    seen: list[str] = []

    def drain() -> None:
        worker = make(noting(seen))
        while worker.work():
            pass

    threads = [threading.Thread(target=drain) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(seen) == len(set(seen)) == 40


def test_jobs_of_lost_workers_come_back_after_their_time_and_not_before(
    api: Api, desk: Desk, make: Make, clock: VirtualClock
) -> None:
    put(api, 6)
    api.take("job_queue_t", visibility="1h")  # an older one that takes its time
    assert len(api.take("job_queue_t", limit=5, visibility="15s")) == 5
    clock.pass_(14)
    assert recover(desk.clerk) == 0
    clock.pass_(1)
    assert recover(desk.clerk) == 5
    worker = make(lambda _: "ok")
    assert [worker.work() for _ in range(6)] == [True] * 5 + [False]


def test_whoever_overruns_its_time_is_refused(
    api: Api, desk: Desk, make: Make, clock: VirtualClock
) -> None:
    put(api, 1)

    def dawdle(_: str) -> str:
        clock.pass_(15)
        recover(desk.clerk)
        assert make(lambda _: "second").work()
        return "first"

    with pytest.raises(LeaseLost):
        make(dawdle).work()
    (job,) = desk.store.find(Filter(states=(State.FINISHED,)))
    assert job.result == b'"second"'


def test_a_handler_that_raises_loses_no_job_and_its_error_is_reported(
    api: Api, desk: Desk, make: Make, clock: VirtualClock
) -> None:
    put(api, 1)
    posted: list[tuple[str | None, str]] = []

    def handle(_: str) -> str:
        if not posted:
            raise ValueError("no")
        return "done"

    worker = make(handle, lambda result, error: posted.append((result, repr(error))))
    assert worker.work()
    clock.pass_(10)
    assert worker.work()
    assert posted == [(None, "ValueError('no')"), ("done", "None")]
    assert desk.store.find(Filter())[0].state is State.FINISHED


def test_a_poison_job_stops_after_five_tries(
    api: Api, desk: Desk, make: Make, clock: VirtualClock
) -> None:
    put(api, 1)
    tries: list[str] = []

    def handle(text: str) -> str:
        tries.append(text)
        raise ZeroDivisionError

    worker = make(handle)
    for _ in range(8):
        worker.work()
        clock.pass_(3600)
    assert len(tries) == 5
    assert [job.state for job in desk.store.find(Filter())] == [State.FAILED]


def test_a_worker_needs_time_for_a_job(desk: Desk) -> None:
    with pytest.raises(BadInput, match="visibility of 0"):
        JobberWorker(desk, "t", visibility=0, handle=noting([]))


def test_a_worker_that_runs_is_woken_by_a_job_and_stops_when_told(api: Api, make: Make) -> None:
    done = threading.Event()
    worker = make(lambda text: text, lambda result, error: done.set())
    thread = threading.Thread(target=worker.run)
    thread.start()
    put(api, 1)
    assert done.wait(30)
    worker.stop()
    thread.join(30)
    assert not thread.is_alive()
