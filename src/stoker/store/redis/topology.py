"""Where the partitions are: on one server, on the one Sentinels name, or all over a Cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as NoConnection


class Address(NamedTuple):
    """A server's host and port; without a port the host is the path of its socket."""

    host: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


Ask = Callable[..., Any]
"""Ask(address, *command): one command to one server, on a connection of its own."""


class Topology(Protocol):
    """Knows at which server a slot is served."""

    clustered: bool
    changes: int
    """How often it turned out that something is elsewhere than before."""

    def where(self, slot: int) -> Address:
        """The server to go to; may ask around."""

    def doubt(self, suspect: Address | None = None) -> None:
        """It was not there, or is not what it was: ask around anew, and the suspect last."""


class Single:
    """One server, always the same."""

    clustered = False
    changes = 0

    def __init__(self, address: Address) -> None:
        self._address = address

    def where(self, slot: int) -> Address:  # noqa: ARG002 - all slots are there
        return self._address

    def doubt(self, suspect: Address | None = None) -> None:
        """There is nobody to ask."""


class Sentinels:
    """The primary of a service, as the first Sentinel that answers names it."""

    clustered = False

    def __init__(self, ask: Ask, addresses: Sequence[Address], service: str) -> None:
        self._ask = ask
        self._addresses = list(addresses)
        self._service = service
        self._primary: Address | None = None
        self._last: Address | None = None
        self.changes = 0

    def where(self, slot: int) -> Address:  # noqa: ARG002 - all slots are there
        primary = self._primary  # which others may doubt meanwhile
        if primary is None:
            self._primary = primary = self._named()
            if primary != self._last:
                self._last, self.changes = primary, self.changes + 1
        return primary

    def _named(self) -> Address:
        last: RedisError = NoConnection("no Sentinel was named")
        for at, address in enumerate(self._addresses):
            try:
                told = self._ask(address, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
            except AuthenticationError as error:
                last = AuthenticationError(
                    f"Sentinel {address} says {str(error)!r}; its login is told behind the ? as "
                    "sentinel_username and sentinel_password"
                )
                continue
            except RedisError as error:
                last = error
                continue
            if told is not None:
                # Whoever answered is asked first the next time.
                self._addresses.insert(0, self._addresses.pop(at))
                return Address(told[0].decode(), int(told[1]))
            last = NoConnection(f"Sentinel {address} knows no service called {self._service!r}")
        raise last

    def doubt(self, suspect: Address | None = None) -> None:  # noqa: ARG002 - it is no Sentinel
        self._primary = None


_Table = tuple[tuple[int, int, Address], ...]
"""First slot, last slot, and where they are served."""


class Cluster:
    """The primaries of a Cluster, by their slots."""

    clustered = True

    def __init__(self, ask: Ask, addresses: Sequence[Address]) -> None:
        self._ask = ask
        self._start = tuple(addresses)
        self._suspects: set[Address] = set()
        self._table: _Table = ()
        """As it was told last."""
        self._is_doubted = True
        self.changes = 0

    def where(self, slot: int) -> Address:
        table = self._told_table() if self._is_doubted else self._table
        for first, last, address in table:
            if first <= slot <= last:
                return address
        self.doubt()
        raise NoConnection(f"no server of the cluster serves slot {slot}")

    def _told_table(self) -> _Table:
        last: RedisError = NoConnection("no server of the cluster was named")
        known = dict.fromkeys((*(address for _, _, address in self._table), *self._start))
        for address in sorted(known, key=self._suspects.__contains__):
            try:
                told = self._ask(address, "CLUSTER", "SLOTS")
            except RedisError as error:
                last = error
                continue
            self._suspects.discard(address)
            return self._learnt(
                tuple(
                    (first, last_slot, _address(primary, address))
                    for first, last_slot, primary, *_ in told
                )
            )
        raise last

    def _learnt(self, table: _Table) -> _Table:
        if table != self._table:
            self._table, self.changes = table, self.changes + 1
        self._is_doubted = False
        return table

    def doubt(self, suspect: Address | None = None) -> None:
        self._is_doubted = True
        if suspect is not None:
            self._suspects.add(suspect)


def _address(node: Sequence[Any], asked: Address) -> Address:
    """A server that does not know its own name has the one under which it was reached."""
    host = node[0].decode() if node[0] else ""
    return Address(host or asked.host, int(node[1]))
