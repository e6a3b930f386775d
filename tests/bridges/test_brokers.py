"""Every broker: an answer reaches its job, and what was seen to does not come again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stoker
from stoker.bridges import Bridge
from stoker.desk import Desk
from stoker.store.memory import MemoryStore
from stoker.store.open import open_store
from tests.bridges import dying
from tests.bridges.carrying import PATIENCE, answer_of, asking, carried, until
from tests.bridges.wires import Wire

SOURCE = str(Path(stoker.__file__).parents[1])


def test_answers_are_carried_once_and_useless_messages_are_put_aside(wire: Wire) -> None:
    desk = Desk(MemoryStore())
    job = asking(desk, "4711")
    wire.send("4711", b'{"paid": true}')
    wire.send("4711", b"{not json")
    wire.send("nobody", b"1")

    async def all_three(bridge: Bridge) -> None:
        await until(lambda: bridge.counts.total() == 3)
        assert bridge.counts == {"delivered": 1, "useless": 1, "kept": 1}

    carried(desk, wire.url, all_three)
    assert answer_of(desk, job) == b'{"paid": true}'
    assert wire.buried() == b"{not json"

    later = asking(desk, "4712")

    async def only_the_new_one(bridge: Bridge) -> None:
        await asyncio.to_thread(wire.send, "4712", b"2")
        await until(lambda: answer_of(desk, later))
        assert bridge.counts == {"delivered": 1}

    carried(desk, wire.url, only_the_new_one)


def test_a_bridge_that_is_killed_before_it_acknowledges_does_no_harm(
    wire: Wire, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'jobs.db'}?sync=normal"
    desk = Desk(open_store(store))
    job = asking(desk, "4711")
    wire.send("4711", b'"the answer"')
    killed = subprocess.run(
        [sys.executable, dying.__file__, store, wire.url],
        env=os.environ | {"PYTHONPATH": SOURCE},
        timeout=PATIENCE,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    assert answer_of(desk, job) == b'"the answer"'
    (held,) = desk.dispatch.claim(["orders"])
    desk.report.finish(held)

    async def once_more(bridge: Bridge) -> None:
        await until(lambda: bridge.counts.total() == 1)
        assert bridge.counts == {"repeated": 1}

    carried(desk, wire.url, once_more)
    assert desk.store.get([job])[job].state.name == "FINISHED"
    desk.store.close()


# Kafka's broker lives inside the process of the tests, and cannot go away.
@pytest.mark.parametrize("wire", ["amqp", "jetstream", "mqtt"], indirect=True)
def test_a_bridge_goes_on_when_its_broker_was_away(wire: Wire) -> None:
    server, desk = wire.server, Desk(MemoryStore())
    assert server is not None
    before, after = asking(desk, "before"), asking(desk, "after")

    async def go_away_and_come_back(bridge: Bridge) -> None:
        await asyncio.to_thread(wire.send, "before", b"1")
        await until(lambda: answer_of(desk, before))
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(wire.send, "after", b"2")
        await until(lambda: answer_of(desk, after))

    carried(desk, wire.url, go_away_and_come_back)
