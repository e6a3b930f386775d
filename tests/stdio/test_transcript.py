"""A conversation, line by line, as it goes over the wire."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from stoker.desk import Desk
from tests.engines import VirtualClock
from tests.stdio.bus import SECOND, Bus

DAY = "2023-11-14T"
CONVERSATION = Path(__file__).with_name("conversation.txt").read_text(encoding="utf-8")


def test_the_conversation_goes_word_for_word(
    desk: Desk, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus(desk, clock)
    told: list[str] = []
    for entry in CONVERSATION.splitlines():
        time, direction, line = entry.split(" ", 2)
        if direction == ">":
            assert len(bus.lines) == len(told), "more was said than is written down"
            clock.now = round(datetime.fromisoformat(f"{DAY}{time}Z").timestamp()) * SECOND
            bus.processor.handle([line.encode()])
        else:
            told.append(line)
            assert bus.lines[len(told) - 1].decode() == line
    assert len(bus.lines) == len(told)
    assert caplog.records == []
