"""What a crash would take along: told by the check, and held to by acknowledgements."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from stoker.desk import Desk
from stoker.errors import StoreUnavailable, StoreUnfit
from stoker.store.finding import Checkable, Finding, Level
from stoker.store.redis import RedisStore
from stoker.store.redis.durability import facts_of, findings, refuse_if_unsafe
from stoker.store.redis.options import read_options
from stoker.store.redis.wire import Wire
from tests.servers import valkey
from tests.servers.valkey import DURABLE, HOST, Server, free_port
from tests.servers.valkey_groups import until
from tests.store.conformance.acts import put

EVERYSEC = {"appendonly": "yes", "appendfsync": "everysec"}


def told(server: Server, subject: str, **wishes: object) -> Finding:
    store = RedisStore(server.url("stoker", **wishes))
    assert isinstance(store, Checkable)
    (finding,) = [finding for finding in store.check() if finding.subject == subject]
    store.close()
    return finding


def calls(server: Server, command: str) -> int:
    with server.client() as client:
        stats: Any = client.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


@pytest.mark.parametrize(
    ("settings", "level", "text"),
    [
        ({}, Level.WARNING, "loses everything; set appendonly yes"),
        ({"save": "60 1"}, Level.WARNING, "what came after the last snapshot"),
        (EVERYSEC, Level.FINE, "loses power, up to two seconds may be"),
        (EVERYSEC | {"appendfsync": "no"}, Level.WARNING, "is up to the system"),
        (DURABLE, Level.FINE, "nothing acknowledged is lost when"),
    ],
)
def test_the_check_tells_what_a_crash_would_take_along(
    settings: dict[str, str], level: Level, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with valkey.server(settings) as server:
        finding = told(server, "crash")
        assert finding.level is level
        assert text in finding.text
    warned = any(text in record.message for record in caplog.records)
    assert warned == (level is Level.WARNING)


def test_what_a_server_hides_is_said_to_be_unknown() -> None:
    with valkey.server(EVERYSEC) as own:
        with own.client() as client:
            may = ("~*", "&*", "+@all", "-config")
            client.execute_command("ACL", "SETUSER", "guest", "on", "nopass", *may)
        store = RedisStore(f"unix://guest:any@{own.socket}")
        (finding,) = [each for each in store.check() if each.subject == "crash"]
        assert (finding.level, "is not told" in finding.text) == (Level.WARNING, True)
        store.close()


def test_a_server_that_confirms_before_its_log_is_on_the_disk_is_refused() -> None:
    with valkey.server(EVERYSEC) as server:
        with pytest.raises(
            StoreUnavailable, match=r"up to a second before .* set appendfsync always"
        ):
            RedisStore(server.url(ack="fsync"))
        assert "up to two seconds" in told(server, "crash", ack="fsync", unsafe=1).text
        store = RedisStore(server.url(ack="fsync", unsafe=1))
        put(Desk(store))
        assert calls(server, "waitaof") == 1
        store.close()


@pytest.mark.parametrize(("version", "keeps"), [("7.4.2", False), ("8.0.0", True)])
def test_a_redis_is_trusted_with_its_disk_since_it_was_mended(version: str, *, keeps: bool) -> None:
    with valkey.server(EVERYSEC) as server:
        wire = Wire(read_options(server.url()))
        found = facts_of(wire, wire.options.addresses[0])
        wire.hang_up()
    numbers = tuple(map(int, version.split(".")))
    redis = msgspec.structs.replace(found, product=f"Redis {version}", version=numbers)
    options = read_options("redis://host?ack=fsync")
    (crash,) = [each for each in findings(options, redis) if each.subject == "crash"]
    assert ("nothing acknowledged is lost" in crash.text) is keeps
    with nullcontext() if keeps else pytest.raises(StoreUnfit, match=f"Redis {version} at"):
        refuse_if_unsafe(options, redis)


def test_a_server_that_syncs_always_need_not_be_waited_for() -> None:
    with valkey.server(DURABLE) as server:
        assert "nothing acknowledged is lost when" in told(server, "crash", ack="fsync").text
        store = RedisStore(server.url(ack="fsync"))
        put(Desk(store))
        assert calls(server, "waitaof") == 0
        store.close()


@pytest.mark.parametrize("ack", ["fsync", "fsync%2Breplica"])
def test_a_server_without_a_log_cannot_promise_the_disk(
    server: Server, prefix: str, ack: str
) -> None:
    with pytest.raises(StoreUnavailable, match="writes no log; set appendonly yes"):
        RedisStore(server.url(prefix, ack=ack))


def test_without_a_replica_nothing_is_acknowledged_by_one(server: Server, prefix: str) -> None:
    store = RedisStore(server.url(prefix, ack="replica", patience=0.1))
    with pytest.raises(StoreUnavailable, match="written, but not acknowledged as ack=replica"):
        put(Desk(store))
    store.close()


@pytest.mark.parametrize("ack", ["replica", "fsync%2Breplica"])
def test_an_acknowledgement_can_wait_for_a_replica(ack: str) -> None:
    with valkey.server(DURABLE, port=free_port()) as primary:
        follow = DURABLE | {"replicaof": f"{HOST} {primary.port}"}
        with valkey.server(follow, port=free_port()) as replica:
            store = RedisStore(primary.url(ack=ack, patience=10))
            assert put(Desk(store)) == 1
            with replica.client() as client:
                assert client.get("{stoker.0}:id") == b"1"
            assert "one of which confirms" in told(primary, "failover", ack=ack).text
            store.close()


@pytest.mark.parametrize(("ack", "command"), [("replica", "wait"), ("fsync%2Breplica", "waitaof")])
def test_a_server_that_is_demoted_before_it_is_asked_for_replicas_is_waited_for(
    ack: str, command: str
) -> None:
    """A replica that takes writes answers as such a server does, and for as long as it is one."""
    with valkey.server(EVERYSEC, port=free_port()) as other:
        demoted = EVERYSEC | {"replicaof": f"{HOST} {other.port}", "replica-read-only": "no"}
        with valkey.server(demoted, port=free_port()) as server, ThreadPoolExecutor() as threads:
            store = RedisStore(server.url(ack=ack, patience=20, unsafe=1))
            placed = threads.submit(put, Desk(store))
            until(lambda: calls(server, command), "a refusal")
            for each, follows in ((server, "NO ONE"), (other, f"{HOST} {server.port}")):
                with each.client() as client:
                    client.execute_command("REPLICAOF", *follows.split())
            assert placed.result() == 1
            store.close()


def test_the_check_knows_when_memory_runs_short() -> None:
    with valkey.server({"maxmemory": "3mb"}) as server:
        assert "of maxmemory" in told(server, "memory").text
        assert told(server, "eviction").level is Level.FINE
    with valkey.server({"maxmemory-policy": "volatile-lru"}) as careless:
        assert told(careless, "eviction", unsafe=1).level is Level.PROBLEM
