"""What is on board of a worker: runners need no lock for their words, and nothing is overlooked."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from stoker import Desk, Job
from stoker.kernel.outcome import Finished, Released
from stoker.store.memory import MemoryStore
from stoker.worker import hold as hold_module
from stoker.worker.context import Context
from stoker.worker.crews import Assignment
from stoker.worker.doormen import Doorman, Lobby
from stoker.worker.hold import Hold, Word
from stoker.worker.tasks import Definition

JOBS = 20_000


@pytest.fixture(autouse=True)
def restless_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def assignments() -> list[Assignment]:
    desk, task = Desk(MemoryStore()), Definition(lambda: None, name="nothing", queue="mail")
    jobs = [Job("mail", "nothing", id=number, token=7) for number in range(JOBS)]
    return [Assignment(task, Context(job, desk)) for job in jobs]


class _Watched(Hold):
    """Looks, before and behind each step of a word on a job, whether the job is still on board."""

    def __init__(self, seen: list[int]) -> None:
        super().__init__()

        def look() -> None:
            seen.append(len(self.leases()))

        class Outbox(deque[Word]):
            def append(self, word: Word, /) -> None:
                look()
                super().append(word)
                look()

        class InHand(set[Assignment]):
            def remove(self, assignment: Assignment, /) -> None:
                look()
                super().remove(assignment)
                look()

        self.outbox, self.in_hand = Outbox(), InHand()


def test_a_job_is_on_board_at_every_moment(assignments: list[Assignment]) -> None:
    seen: list[int] = []
    hold = _Watched(seen)
    hold.load(assignments[:2])
    hold.settle(assignments[0], Finished())
    hold.settle(assignments[0], Finished())

    assert seen == [2, 2, 2, 2]
    assert [job for job, _ in hold.outbox] == [assignments[0].context.job]
    assert hold.in_hand == {assignments[1]}


def test_of_two_words_on_a_job_the_first_counts(assignments: list[Assignment]) -> None:
    hold = Hold()
    hold.load(assignments)
    counted = [0, 0]

    def settle_all(who: int) -> None:
        for assignment in assignments:
            counted[who] += hold.settle(assignment, (Finished(), Released())[who])

    runners = [threading.Thread(target=settle_all, args=(who,)) for who in (0, 1)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()

    assert sum(counted) == JOBS
    said = [sum(isinstance(word, kind) for _, word in hold.outbox) for kind in (Finished, Released)]
    assert said == counted


def test_a_place_that_is_freed_while_a_doorman_looks_is_kept_for_it() -> None:
    desk = Desk(MemoryStore())

    def none_free() -> int:
        """And just now a job ends. If its runner sees nobody who waits it is gone at once, else it
        stands behind us."""
        ended.start()
        ended.join(timeout=0.05)
        return 0

    lobby = Lobby(desk, free=none_free, wake_ferry=lambda: None)
    doorman = Doorman(desk, "mail", lambda _: None, "worker 1")
    ended = threading.Thread(target=lobby.place_free)

    assert lobby.keep_places(doorman) == 0
    ended.join()
    assert lobby.kept == 1


def test_a_hold_knows_for_how_long_nothing_was_in_hand(
    assignments: list[Assignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(hold_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    hold, (one, other, *_) = Hold(), assignments
    now[0] += 1
    assert hold.idled() == 1
    now[0] += 2
    hold.load([one, other])
    now[0] += 4
    hold.settle(one, Finished())
    now[0] += 8
    assert hold.idled() == 2
    hold.settle(other, Finished())
    now[0] += 16
    assert hold.idled() == 16
    now[0] += 32
    hold.load([one])
    now[0] += 64
    assert hold.idled() == 32


def test_there_is_no_idle_time_while_somebody_comes_aboard_as_the_last_one_leaves(
    assignments: list[Assignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, (one, other, third, *_) = Hold(), assignments
    hold.load([one])
    now, meanwhile = [100.0], [other]

    def monotonic() -> float:
        if meanwhile:
            hold.load([meanwhile.pop()])
        return now[0]

    monkeypatch.setattr(hold_module, "time", SimpleNamespace(monotonic=monotonic))
    hold.settle(one, Finished())
    assert hold.in_hand == {other}
    hold.idled()
    now[0] += 1
    hold.load([third])
    assert hold.idled() == 0
