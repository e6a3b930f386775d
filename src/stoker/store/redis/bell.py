"""Wake-ups through the server: every transaction publishes the names it rings for.

The channels are sharded: in a Cluster a ring goes to the servers of its partition and no others. A
listener has one connection to each of these and sleeps on them. If one breaks all are made anew,
and it hears of every queue in which jobs wait: some of the rings may have been missed.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import select
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from redis import exceptions as trouble

from stoker.errors import StoreError
from stoker.kernel.job import Job
from stoker.store.bell import Nudge
from stoker.store.redis import layout
from stoker.store.redis.connection import Line, connect, packed
from stoker.store.redis.partition import Partition
from stoker.store.redis.topology import Address
from stoker.store.redis.wire import Wire
from stoker.store.rings import errand_ring

_NAMES = msgspec.msgpack.Decoder(list[str])
_AGAIN_AFTER = 1.0
_QUIET_SECONDS = 30.0
"""After so long a server is asked for a sign of life: else nobody would hear that none comes."""

OnRing = Callable[[int], None]
"""Told the number of the partition that rang."""


def _channel(part: Partition) -> str:
    return f"{part.tag}:bell"


class _Ear:
    """The subscriptions at one server."""

    def __init__(
        self, line: Line, parts: Sequence[Partition], on_ring: OnRing | None, own: str | None
    ) -> None:
        self._line = line
        self._on_ring = on_ring
        self._heard: set[str] = set()
        self._brought: list[Job] = []
        self._numbers = {_channel(part).encode(): part.number for part in parts}
        self._errands = b"" if own is None else f"{_channel(parts[0])}:{own}".encode()
        channels = [*self._numbers, self._errands] if self._errands else [*self._numbers]
        self._missing = len(channels)
        for channel in channels:
            line.send(packed("SSUBSCRIBE", channel))
        while self._missing:
            self._take(*line.read())
        line.listen()
        self._heard_at = time.monotonic()
        self._asked_at: float | None = None

    def is_dead(self, patience: float) -> bool:
        """Did the server give no sign of life in this time, though it was asked for one?"""
        now = time.monotonic()
        if self._asked_at is not None:
            return now > self._asked_at + patience
        if now > self._heard_at + _QUIET_SECONDS:
            self._line.send(packed("PING"))
            self._asked_at = now
        return False

    def fileno(self) -> int:
        return self._line.fileno()

    def heard(self) -> tuple[set[str], list[Job]]:
        """What came since the last time, and the jobs that came along."""
        for said in self._line.heard():
            self._heard_at, self._asked_at = time.monotonic(), None
            self._take(*said)
        heard, self._heard = self._heard, set()
        brought, self._brought = self._brought, []
        return heard, brought

    def _take(self, kind: bytes, channel: bytes, said: Any = None) -> None:
        if kind == b"smessage":
            if channel == self._errands:
                self._take_errand(said)
                return
            self._heard.update(_NAMES.decode(said))
            if self._on_ring is not None:
                self._on_ring(self._numbers[channel])
        elif kind == b"ssubscribe":
            self._missing -= 1
        elif kind != b"pong":
            raise trouble.ConnectionError("the slot of the channel has moved")

    def _take_errand(self, said: bytes) -> None:
        session, job = layout.errand_in(said, layout.JobReader(0))
        self._heard.add(errand_ring(session))
        if job is not None:
            self._brought.append(job)

    def close(self) -> None:
        self._line.disconnect()


class RedisListener:
    """An ear at each server that has a partition of the store."""

    def __init__(
        self, wire: Wire, parts: Sequence[Partition], on_ring: OnRing | None = None
    ) -> None:
        self._wire = wire
        self._parts = parts
        self._on_ring = on_ring
        self._nudge = Nudge()
        self._ears: dict[int, _Ear] = {}
        self._brought: list[Job] = []
        self._own: str | None = None
        self._deaf = True
        self._changes = 0
        """Of the topology, when it was listened to where everything is."""
        self._next_try = 0.0
        self._listen()

    @property
    def address(self) -> str | None:
        return None if self._deaf else self._own

    def wait(self, timeout: float) -> set[str]:
        self._brought = []
        if not self._deaf and self._changes != self._wire.topology.changes:
            self._go_elsewhere()  # a server that is stuck does not hang up: others learnt of it
        self._leave_the_dead()
        if self._deaf:
            if self._listen():
                return self._missed()
            timeout = min(timeout, _AGAIN_AFTER)
        heard: set[str] = set()
        for source, _ in self._poll.poll(math.ceil(max(timeout, 0.0) * 1000)):
            ear = self._ears.get(source)
            if ear is not None:
                heard |= self._heard_by(ear)
            elif source == self._nudge.fileno():
                self._nudge.take_back()
        return heard

    def _leave_the_dead(self) -> None:
        try:
            patience = self._wire.options.patience
            if not any(ear.is_dead(patience) for ear in self._ears.values()):
                return
        except trouble.RedisError:
            pass
        self._go_elsewhere()

    def _heard_by(self, ear: _Ear) -> set[str]:
        try:
            heard, brought = ear.heard()
            self._brought += brought
            return heard
        except trouble.RedisError:
            self._go_elsewhere()
            return set()

    def _go_elsewhere(self) -> None:
        """Listen anew, and at once, where everything is by now."""
        self._hang_up()
        self._next_try = 0.0

    def brought(self) -> list[Job]:
        return self._brought

    def _missed(self) -> set[str]:
        """Whatever may have been rung for while nobody listened."""
        with contextlib.suppress(StoreError):
            return {queue for part in self._parts for queue in part.listed("lines", "")}
        return set()

    def _listen(self) -> bool:
        """Listen at all servers, unless that was tried just now."""
        now = time.monotonic()
        if now < self._next_try:
            return False
        self._next_try = now + _AGAIN_AFTER
        self._hang_up()
        # Where there are several partitions a claim would stand, and be served, in each of them.
        self._own = secrets.token_hex(8) if len(self._parts) == 1 else None
        try:
            for address, parts in self._by_server().items():
                ear = _Ear(connect(self._wire.options, address), parts, self._on_ring, self._own)
                self._ears[ear.fileno()] = ear
                self._poll.register(ear, select.POLLIN)
        except trouble.RedisError:
            self._wire.topology.doubt()
            self._hang_up()
            return False
        self._deaf = False
        return True

    def _by_server(self) -> dict[Address, list[Partition]]:
        topology = self._wire.topology
        topology.where(self._parts[0].slot)  # what is known is known before it is counted
        self._changes = topology.changes
        servers: dict[Address, list[Partition]] = {}
        for part in self._parts:
            servers.setdefault(topology.where(part.slot), []).append(part)
        return servers

    def _hang_up(self) -> None:
        for ear in self._ears.values():
            ear.close()
        self._ears, self._deaf = {}, True
        self._poll = select.poll()
        self._poll.register(self._nudge, select.POLLIN)

    def interrupt(self) -> None:
        self._nudge.push()

    def close(self) -> None:
        self._hang_up()
        self._nudge.close()


class RedisBell:
    """Rings all listeners of one store."""

    def __init__(
        self, wire: Wire, parts: Sequence[Partition], on_ring: OnRing | None = None
    ) -> None:
        self._wire = wire
        self._parts = parts
        self._on_ring = on_ring

    def ring(self, names: Iterable[str]) -> None:
        part = self._parts[0]
        with contextlib.suppress(trouble.RedisError):
            address = self._wire.topology.where(part.slot)
            message = msgspec.msgpack.encode(list(names))
            self._wire.ask(address, "SPUBLISH", _channel(part), message)

    def listen(self) -> RedisListener:
        return RedisListener(self._wire, self._parts, self._on_ring)
