"""The pulse beats for whom it should, and for nobody else."""

from __future__ import annotations

import multiprocessing

import pytest

from stoker.desk import Desk
from stoker.fleet import child
from stoker.fleet.pulse import Pulse
from tests.engines import SECOND, VirtualClock

TTL = 8 * SECOND


class Roll:
    """When each session was heard of last."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.beats: dict[int, float] = {}

    def now(self) -> float:
        return self._clock.now / SECOND

    def hear(self, *sessions: int) -> None:
        self.beats |= dict.fromkeys(sessions, self.now())


@pytest.fixture
def roll(clock: VirtualClock) -> Roll:
    return Roll(clock)


@pytest.fixture
def pulse(desk: Desk, roll: Roll) -> Pulse:
    return Pulse(desk, TTL, lambda: roll.beats, roll.now)


def test_it_helps_a_session_whose_heart_is_late(
    desk: Desk, clock: VirtualClock, roll: Roll, pulse: Pulse
) -> None:
    beating, silent = (desk.dispatch.open_session(ttl=TTL) for _ in range(2))
    roll.hear(beating, silent)
    helped = []
    for _ in range(12):  # a second each, and a heartbeat every other
        clock.pass_(1)
        helped.append(pulse.help_the_late())
        if len(helped) % 2:
            desk.dispatch.beat(beating, ttl=TTL)
            roll.hear(beating)
    assert helped == [[], [], [silent]] * 4
    assert desk.dispatch.beat(silent, ttl=TTL).alive


def test_it_asks_the_store_for_nothing_while_all_is_well(
    desk: Desk, clock: VirtualClock, roll: Roll, pulse: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    roll.hear(desk.dispatch.open_session(ttl=TTL))
    for verb in ("beat", "sessions"):
        monkeypatch.setattr(desk.store, verb, _unexpected)
    clock.pass_(2)
    assert pulse.help_the_late() == []
    clock.pass_(1)
    with pytest.raises(AssertionError):
        pulse.help_the_late()


def _unexpected(*args: object, **options: object) -> None:
    raise AssertionError(f"the store was asked: {args} {options}")


def test_it_tries_again_until_a_beat_gets_through(
    desk: Desk, clock: VirtualClock, roll: Roll, pulse: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = desk.dispatch.open_session(ttl=TTL)
    roll.hear(silent)
    clock.pass_(3)
    with monkeypatch.context() as broken:
        broken.setattr(desk.store, "beat", _unexpected)
        with pytest.raises(AssertionError):
            pulse.help_the_late()
    assert pulse.help_the_late() == [silent]
    assert pulse.help_the_late() == []


def test_it_helps_nobody_who_is_not_to_be_helped(
    desk: Desk, clock: VirtualClock, pulse: Pulse
) -> None:
    stranger = desk.dispatch.open_session(ttl=TTL)
    clock.pass_(7)
    assert pulse.help_the_late() == []
    clock.pass_(1)
    assert not desk.dispatch.beat(stranger, ttl=TTL).alive


def test_it_brings_nobody_back_to_life(
    desk: Desk, clock: VirtualClock, roll: Roll, pulse: Pulse
) -> None:
    dead = desk.dispatch.open_session(ttl=TTL)
    roll.hear(dead, 12345)
    clock.pass_(8)
    pulse.help_the_late()
    assert not desk.dispatch.beat(dead, ttl=TTL).alive


def test_a_worker_does_not_wait_for_a_supervisor_that_does_not_listen() -> None:
    ours, theirs = multiprocessing.Pipe()
    for _ in range(10_000):
        child._tell(theirs, 4711)
    while ours.poll():
        assert ours.recv() == 4711
    child._tell(theirs, 12)
    assert ours.recv() == 12
    ours.close()
    child._tell(theirs, 13)
    theirs.close()
