"""A Cluster of Valkey servers without replicas, and what asks for partitions on any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS
from redis.crc import key_slot

from bench.engines import redis
from bench.engines.engine import Place, Places
from bench.engines.raw_redis import connect
from bench.engines.server import HOST, free_port, until


class Wished(NamedTuple):
    """A place with wishes added to its address."""

    place: Place
    wishes: str

    @property
    def url(self) -> str:
        """For Stoker alone."""
        return f"{self.place.url}?{self.wishes}"

    def settle(self) -> None:
        """As without wishes."""
        self.place.settle()

    def weight(self) -> int:
        """As without wishes."""
        return self.place.weight()


class Partitioned(NamedTuple):
    """Places whose jobs are spread over so many partitions."""

    places: Places
    partitions: int

    @contextmanager
    def place(self, folder: Path) -> Iterator[Wished]:
        """One of them."""
        with self.places.place(folder) as place:
            yield Wished(place, f"partitions={self.partitions}")


class Shards(NamedTuple):
    """All servers of a Cluster together, as one place."""

    ports: tuple[int, ...]

    @property
    def url(self) -> str:
        """For Stoker alone."""
        return f"redis+cluster://{','.join(f'{HOST}:{port}' for port in self.ports)}"

    def settle(self) -> None:
        """Nothing is owed, as with one server."""

    def weight(self) -> int:
        """Memory in use by all servers."""
        return sum(redis.Numbered(port, 0).weight() for port in self.ports)


class Cluster:
    """A Cluster that is up. It has one place, which is emptied for whoever comes."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._shards = Shards(tuple(ports))

    @contextmanager
    def place(self, folder: Path) -> Iterator[Shards]:  # noqa: ARG002 - servers have their own
        """The Cluster without a key."""
        for port in self._shards.ports:
            _ask(port, "FLUSHALL SYNC")
        yield self._shards


@contextmanager
def started(folder: Path, shards: int) -> Iterator[Cluster]:
    """So many servers that share the slots, with their data in the folder."""
    with ExitStack() as stack:
        ports = [
            stack.enter_context(redis.node(folder, f"shard-{number}", _as_member))
            for number in range(shards)
        ]
        _share_slots(ports)
        for port in ports[1:]:
            _ask(ports[0], "CLUSTER MEET", HOST, port, _bus(port))
        until(lambda: all(_is_whole(port, shards) for port in ports), "no Cluster has come about")
        yield Cluster(ports)


def _as_member() -> Mapping[str, str]:
    # By itself it would take the port ten thousand above its own, which there may not be.
    return {"cluster-enabled": "yes", "cluster-port": str(free_port())}


def _share_slots(ports: Sequence[int]) -> None:
    """Of as many partitions each falls to a server of its own."""
    own = sorted(key_slot(f"{{stoker.{number}}}".encode()) for number in range(len(ports)))
    starts = [0, *(slot + 1 for slot in own[:-1]), SLOTS]
    for port, (first, beyond) in zip(ports, pairwise(starts), strict=True):
        _ask(port, "CLUSTER ADDSLOTSRANGE", first, beyond - 1)


def _bus(port: int) -> str:
    """The other port of a server, by which it speaks with its like."""
    return str(_ask(port, "CONFIG GET", "cluster-port")["cluster-port"])


def _is_whole(port: int, shards: int) -> bool:
    told = _ask(port, "CLUSTER INFO")
    return bool(told["cluster_state"] == "ok" and int(told["cluster_known_nodes"]) == shards)


def _ask(port: int, *command: Any) -> Any:
    with closing(connect(redis.Numbered(port, 0).url)) as client:
        return client.execute_command(*command)
