"""The pulse beats for whom it should, and for nobody else."""

from __future__ import annotations

from stoker.desk import Desk
from stoker.fleet.pulse import Pulse
from tests.engines import SECOND, VirtualClock

TTL = 8 * SECOND


def test_it_helps_a_session_whose_heart_is_late(desk: Desk, clock: VirtualClock) -> None:
    beating, silent = (desk.dispatch.open_session(ttl=TTL) for _ in range(2))
    pulse = Pulse(desk, TTL, lambda: [beating, silent])
    helped = []
    for _ in range(12):  # a second each, and a heartbeat every other
        clock.pass_(1)
        helped.append(pulse.help_the_late())
        if len(helped) % 2:
            desk.dispatch.beat(beating, ttl=TTL)
    assert helped == [[], [], [silent]] * 4


def test_it_helps_nobody_who_is_not_to_be_helped(desk: Desk, clock: VirtualClock) -> None:
    stranger = desk.dispatch.open_session(ttl=TTL)
    pulse = Pulse(desk, TTL, list)
    clock.pass_(7)
    assert pulse.help_the_late() == []
    clock.pass_(1)
    assert not desk.dispatch.beat(stranger, ttl=TTL).alive


def test_it_brings_nobody_back_to_life(desk: Desk, clock: VirtualClock) -> None:
    dead = desk.dispatch.open_session(ttl=TTL)
    pulse = Pulse(desk, TTL, lambda: [dead, 12345])
    clock.pass_(8)
    pulse.help_the_late()
    assert not desk.dispatch.beat(dead, ttl=TTL).alive
