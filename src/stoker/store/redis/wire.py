"""Calling functions inside the server, come what may.

Every function may be called again: those that look change nothing, `transact` recognises a call it
has served, and the others say the same twice. So whatever interrupts a call (a cut connection, a
restart, a failover, a slot that moves) is waited out and the call repeated, as long as the
caller's patience lasts. After that nobody knows whether it took effect, and the error says so.

While a slot of a Cluster is on its way from server to server its keys are here and there. The key
that is named in a call, the tag, is never there, so that the server refuses every call until all of
the slot has arrived (ASK, else for one key the way to the other half); so do we wait.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from redis import exceptions as trouble

from stoker.store.redis.connection import Argument, Line, connect, packed
from stoker.store.redis.library import library
from stoker.store.redis.options import Ack, Options
from stoker.store.redis.topology import Address, Cluster, Sentinels, Single, Topology
from stoker.store.redis.troubles import raise_if_hopeless, unavailable

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
_MOST_IDLE = 16


class Wire:
    """Connections to the servers of one store, lent out call by call."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.ack = options.ack
        """What has to be waited for after a write, beyond what the server does by itself."""
        self._idle: dict[Address, deque[Line]] = {}
        self.topology = self._topology()

    def _topology(self) -> Topology:
        options = self.options
        if options.kind == "sentinel":
            return Sentinels(self._ask_sentinel, options.addresses, options.service)
        if options.kind == "cluster":
            return Cluster(self.ask, options.addresses)
        return Single(options.addresses[0])

    def hang_up(self) -> None:
        """Close all connections. The next call makes new ones."""
        idle, self._idle = self._idle, {}
        for lines in idle.values():
            for line in lines:
                line.disconnect()

    # -- calls -----------------------------------------------------------------------------

    @staticmethod
    def function(name: str) -> str:
        """The name by which the server knows a function."""
        return library().function(name)

    def command(self, slot: int, *command: Argument, ack: Ack = Ack.MEMORY) -> Any:
        """Send a command to where a slot is served, until it is answered or patience ends."""
        return self.tell(slot, packed(*command), ack)

    def tell(self, slot: int, command: bytes, ack: Ack, *, awake: bool = False) -> Any:
        """The same for a command that is packed already, and whose answer may be waited for
        awake."""
        return self.patiently(self._attempt, slot, command, ack, awake)

    def _attempt(self, slot: int, command: bytes, ack: Ack, awake: bool) -> Any:
        here = self.topology.where(slot)
        try:
            return self._exchange(here, command, ack, awake=awake)
        except trouble.MovedError as error:
            self.topology.doubt()
            return self._exchange(Address(error.host or here.host, int(error.port)), command, ack)

    def post(self, slot: int, command: bytes, ack: Ack) -> Callable[[], Any]:
        """Send a packed command; its answer is waited for by whoever calls what this gives, so that
        others can be under way meanwhile. Should anything go wrong it is told again."""
        again = partial(self.tell, slot, command, ack)
        try:
            line, idle = self._lent(self.topology.where(slot))
        except trouble.RedisError:
            return again
        try:
            line.send(command)
        except trouble.RedisError:
            line.disconnect()
            return again

        def answer() -> Any:
            try:
                return self._heard(line, idle, ack, line.read)
            except trouble.RedisError:
                return again()

        return answer

    def patiently(self, ask: Callable[..., T], *args: Any) -> T:
        """Ask until there is an answer, it is hopeless, or patience ends."""
        deadline, pause = time.monotonic() + self.options.patience, _FIRST_PAUSE
        while True:
            try:
                return ask(*args)
            except trouble.RedisError as error:
                raise_if_hopeless(self.options, error)
                if not isinstance(error, trouble.TryAgainError):
                    self.topology.doubt()  # also for whoever calls next
                if time.monotonic() + pause > deadline:
                    raise unavailable(self.options, error) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _exchange(
        self, address: Address, command: bytes, ack: Ack = Ack.MEMORY, *, awake: bool = False
    ) -> Any:
        line, idle = self._lent(address)
        return self._heard(line, idle, ack, partial(self._answer, line, command, awake))

    def _lent(self, address: Address) -> tuple[Line, deque[Line]]:
        """A connection, and where it is to be given back."""
        idle = self._idle.get(address)
        if idle is None:
            idle = self._idle.setdefault(address, deque())
        try:
            return idle.pop(), idle
        except IndexError:
            return connect(self.options, address), idle

    def _heard(self, line: Line, idle: deque[Line], ack: Ack, ask: Callable[[], Any]) -> Any:
        try:
            answer = ask()
            if ack is not Ack.MEMORY and answer:  # 0: nothing was done
                self._confirm(line, ack)
        except trouble.ResponseError:
            _give_back(line, idle)
            raise
        except BaseException:
            line.disconnect()
            idle.clear()  # what befell this one has befallen them all
            self.topology.doubt(line.address)
            raise
        _give_back(line, idle)
        return answer

    def _answer(self, line: Line, command: bytes, awake: bool) -> Any:
        try:
            return line.exchange(command, awake=awake)
        except trouble.ResponseError as error:
            if "Function not found" not in str(error):
                raise
        line.exchange(packed("FUNCTION", "LOAD", "REPLACE", library().code))
        return line.exchange(command)

    def _confirm(self, line: Line, ack: Ack) -> None:
        """Wait until what was written on this connection is as safe as was asked for."""
        milliseconds = round(self.options.attempt * 1000)
        disks, replicas = ack is not Ack.REPLICA, ack is not Ack.FSYNC
        if disks:
            on_disks = line.exchange(packed("WAITAOF", 1, int(replicas), milliseconds))
            enough = on_disks[0] >= 1 and on_disks[1] >= int(replicas)
        else:
            enough = line.exchange(packed("WAIT", 1, milliseconds)) >= 1
        if not enough:
            raise trouble.TimeoutError(f"it was written, but not acknowledged as ack={ack.value}")

    # -- connections -----------------------------------------------------------------------

    def ask(self, address: Address, *command: Argument) -> Any:
        """One command to one server."""
        return self._exchange(address, packed(*command))

    def _ask_sentinel(self, address: Address, *command: Argument) -> Any:
        line = connect(self.options, address, sentinel=True)
        try:
            return line.exchange(packed(*command))
        finally:
            line.disconnect()


def _give_back(line: Line, idle: deque[Line]) -> None:
    if len(idle) < _MOST_IDLE:
        idle.append(line)
    else:
        line.disconnect()
