"""Valkey servers that belong together: a Cluster of six, and a primary with Sentinels."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import redis

from tests.servers.valkey import HOST, PATIENCE, Server, free_port

PRIMARIES = 3
_SLOTS = 16384
_IN_CLUSTER = {
    "cluster-enabled": "yes",
    "cluster-config-file": "nodes.conf",
    "cluster-node-timeout": "1500",
    "cluster-replica-validity-factor": "0",
    "repl-ping-replica-period": "1",
}
SERVICE = "jobs"
_SENTINEL = f"""
sentinel monitor {SERVICE} {HOST} %d 2
sentinel down-after-milliseconds {SERVICE} 500
sentinel failover-timeout {SERVICE} 3000
"""


def until(true: Callable[..., Any], what: str, *about: Any) -> None:
    """Wait until something has come about."""
    deadline = time.monotonic() + PATIENCE
    while not true(*about):
        assert time.monotonic() < deadline, f"{what} has not come about"
        time.sleep(0.01)


class Cluster:
    """Three primaries with a third of the slots each, and a replica for each of them."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        chosen = _IN_CLUSTER | (settings or {})
        self.servers = [Server(chosen, port=free_port()) for _ in range(2 * PRIMARIES)]
        self._share_slots()
        self._meet()
        self._replicate()

    def _share_slots(self) -> None:
        for number in range(PRIMARIES):
            first, beyond = (_SLOTS * n // PRIMARIES for n in (number, number + 1))
            self.run(number, "CLUSTER ADDSLOTSRANGE", first, beyond - 1)

    def _meet(self) -> None:
        for number in range(1, len(self.servers)):
            self.run(0, "CLUSTER MEET", HOST, self.servers[number].port)
        for number in range(len(self.servers)):
            until(self._is_whole, "the cluster", number)

    def _is_whole(self, number: int) -> bool:
        return self.run(number, "CLUSTER INFO").count(
            b"cluster_known_nodes:6"
        ) == 1 and b"cluster_state:ok" in self.run(number, "CLUSTER INFO")

    def _replicate(self) -> None:
        for number in range(PRIMARIES):
            replica = number + PRIMARIES
            self.run(replica, "CLUSTER REPLICATE", self.name(number))
            until(self.follows, "the replica", replica)

    def run(self, number: int, *command: Any) -> Any:
        """One command to one server, answered as it comes."""
        with self.servers[number].client() as client:
            client.response_callbacks.clear()
            return client.execute_command(*command)

    def name(self, number: int) -> bytes:
        """How a server is called in the cluster."""
        return bytes(self.run(number, "CLUSTER MYID"))

    def follows(self, number: int) -> bool:
        """Whether a server is a replica and up to date."""
        return b"master_link_status:up" in self.run(number, "INFO", "replication")

    def leads(self, number: int) -> bool:
        """Whether a server is a primary."""
        return b"role:master" in self.run(number, "INFO", "replication")

    @staticmethod
    def partner(number: int) -> int:
        """The server that follows a primary, or leads a replica."""
        return (number + PRIMARIES) % (2 * PRIMARIES)

    def another(self, number: int) -> int:
        """A primary other than this one."""
        others = (n for n in range(2 * PRIMARIES) if n not in (number, self.partner(number)))
        return next(other for other in others if self.leads(other))

    def serving(self, slot: int) -> int:
        """The number of the primary that has a slot."""
        for first, last, primary, *_ in self.run(self._any_alive(), "CLUSTER SLOTS"):
            if first <= slot <= last:
                return self._by_port(primary[1])
        raise AssertionError(f"nobody serves slot {slot}")

    def _any_alive(self) -> int:
        return next(number for number, server in enumerate(self.servers) if server.is_up)

    def _by_port(self, port: int) -> int:
        return next(n for n, server in enumerate(self.servers) if server.port == port)

    def url(self, prefix: str = "stoker", **more: object) -> str:
        """The address of a store in it."""
        hosts = ",".join(f"{HOST}:{server.port}" for server in self.servers[:PRIMARIES])
        wishes = "".join(f"&{name}={value}" for name, value in more.items())
        return f"redis+cluster://{hosts}?prefix={prefix}{wishes}"

    def remove(self) -> None:
        """End all servers."""
        for server in self.servers:
            server.remove()


class Watched:
    """A primary, replicas, and three Sentinels that look after them."""

    def __init__(self, settings: dict[str, str] | None = None, *, replicas: int = 1) -> None:
        self.primary = Server(settings, port=free_port())
        follow = {"replicaof": f"{HOST} {self.primary.port}"} | (settings or {})
        self.replicas = [Server(follow, port=free_port()) for _ in range(replicas)]
        for replica in self.replicas:
            until(_follows, "the replica", replica)
        self.sentinels = [self._sentinel() for _ in range(3)]
        for sentinel in self.sentinels:
            until(_knows_all, "the Sentinels' acquaintance", sentinel, replicas)

    def _sentinel(self) -> Server:
        return Server(port=free_port(), sentinel=_SENTINEL % self.primary.port)

    def successor(self) -> Server | None:
        """The replica that is the primary now."""
        return next((replica for replica in self.replicas if _leads(replica)), None)

    def all_know_the_successor(self) -> bool:
        """Whether all Sentinels name it, which they do when the other replicas follow it."""
        successor = self.successor()
        return successor is not None and all(
            _named_by(sentinel) == successor.port for sentinel in self.sentinels
        )

    def come_back(self) -> None:
        """The old primary returns, as a replica of the new one."""
        successor = self.successor()
        assert successor is not None, "nobody has taken over"
        self.primary.settings["replicaof"] = f"{HOST} {successor.port}"
        self.primary.start()

    def url(self, prefix: str = "stoker", **more: object) -> str:
        """The address of a store in it."""
        hosts = ",".join(f"{HOST}:{sentinel.port}" for sentinel in self.sentinels)
        wishes = "".join(f"&{name}={value}" for name, value in more.items())
        return f"redis+sentinel://{hosts}/{SERVICE}?prefix={prefix}{wishes}"

    def remove(self) -> None:
        """End all servers."""
        for server in (*self.sentinels, *self.replicas, self.primary):
            server.remove()


def _follows(replica: Server) -> bool:
    with replica.client() as client:
        return bool(client.info("replication")["master_link_status"] == "up")


def _leads(replica: Server) -> bool:
    """When it becomes a primary it hangs up on everybody."""
    with suppress(redis.ConnectionError), replica.client() as client:
        return bool(client.info("replication")["role"] == "master")
    return False


def _named_by(sentinel: Server) -> int:
    with sentinel.client() as client:
        _, port = client.sentinel_get_master_addr_by_name(SERVICE)
        return int(port)


def _knows_all(sentinel: Server, replicas: int) -> bool:
    with sentinel.client() as client:
        (known,) = client.sentinel_masters().values()
        return bool(known["num-slaves"] == replicas and known["num-other-sentinels"] == 2)


@cache
def default_cluster() -> Cluster:
    """The Cluster that tests share; whoever does it harm sees to it that it is whole again."""
    shared = Cluster()
    atexit.register(shared.remove)
    return shared
