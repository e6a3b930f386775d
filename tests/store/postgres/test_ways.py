"""What is remembered of how queues are to be claimed from."""

from __future__ import annotations

import pytest

from stoker.store.postgres.ways import Ways

QUEUE = ["q"]


@pytest.fixture
def ways() -> Ways:
    return Ways(walks=3)


def test_of_a_queue_that_nobody_has_asked_nothing_is_known(ways: Ways) -> None:
    assert not ways.need_a_walk(QUEUE)
    assert not ways.go_by_lanes(QUEUE)


def test_a_queue_that_needs_a_walk_is_walked_until_an_answer_says_otherwise(ways: Ways) -> None:
    ways.learn(QUEUE, kept=True, laned=False)
    assert ways.need_a_walk(["other", "q"])
    ways.learn(QUEUE, kept=False, laned=False)
    assert not ways.need_a_walk(QUEUE)


def test_lanes_are_asked_of_one_queue_and_not_of_several(ways: Ways) -> None:
    ways.learn(QUEUE, kept=True, laned=True)
    assert (ways.go_by_lanes(QUEUE), ways.need_a_walk(QUEUE)) == (True, False)
    assert not ways.go_by_lanes(["q", "other"])


def test_a_queue_asked_by_lanes_in_vain_is_walked_for_a_while(ways: Ways) -> None:
    ways.learn(QUEUE, kept=True, laned=True)
    ways.learn(QUEUE, kept=True, laned=True)
    walked = 0
    while ways.need_a_walk(QUEUE):
        assert not ways.go_by_lanes(QUEUE)
        ways.learn(QUEUE, kept=False, laned=True)
        walked += 1
    assert walked == 3
    assert ways.go_by_lanes(QUEUE)
