"""The server's clock as it is reckoned from its answers."""

from __future__ import annotations

import pytest

from stoker.store.redis import clock as module
from stoker.store.redis.clock import ServerClock


class Own:
    """Our own clock, under control."""

    def __init__(self) -> None:
        self.now = 1000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Own:
    own = Own()
    monkeypatch.setattr(module, "_own_clock", own)
    return own


def exchange(clock: ServerClock, own: Own, there: int, back: int, server_ahead: int) -> None:
    """A question takes so long to the server, the answer so long back."""
    asked = clock.asked()
    own.now += there
    told = own.now + server_ahead
    own.now += back
    clock.told(told, asked)


def test_it_is_never_ahead_of_the_server_nor_behind_what_was_told(own: Own) -> None:
    clock = ServerClock(None)
    exchange(clock, own, there=30, back=50, server_ahead=5000)
    assert clock() == own.now + 5000 - 50
    own.now += 100
    assert clock() == own.now + 5000 - 50


def test_a_quicker_answer_makes_it_better_and_a_slower_one_no_worse(own: Own) -> None:
    clock = ServerClock(None)
    exchange(clock, own, there=30, back=50, server_ahead=5000)
    exchange(clock, own, there=1, back=2, server_ahead=5000)
    assert clock() == own.now + 4998
    exchange(clock, own, there=400, back=300, server_ahead=5000)
    assert clock() == own.now + 4998


def test_a_server_whose_clock_was_set_is_followed(own: Own) -> None:
    clock = ServerClock(None)
    exchange(clock, own, there=1, back=1, server_ahead=5000)
    for ahead in (3_600_000_000, -3_600_000_000):
        exchange(clock, own, there=1, back=1, server_ahead=ahead)
        assert clock() == own.now + ahead - 1


def test_a_clock_that_is_given_is_told_to_the_server(own: Own) -> None:
    clock = ServerClock(lambda: 77)
    exchange(clock, own, there=1, back=1, server_ahead=5000)
    assert (clock(), clock.argument) == (77, b"77")
    assert ServerClock(None).argument == b""


def test_what_was_told_a_second_ago_is_not_known_any_more(own: Own) -> None:
    clock = ServerClock(None)
    known = [clock.is_known]
    exchange(clock, own, there=1, back=1, server_ahead=5000)
    for microseconds in (999_999, 1):
        own.now += microseconds
        known.append(clock.is_known)
    assert known == [False, True, False]
