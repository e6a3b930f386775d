"""On a Cluster: partitions on several servers, failovers, and slots that move under way."""

from __future__ import annotations

import signal
from functools import partial

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store.memory import MemoryStore
from stoker.store.redis import RedisStore
from tests.engines import VirtualClock
from tests.model.lives import Lives, SeededChooser
from tests.servers.valkey import HOST
from tests.servers.valkey_groups import PRIMARIES, Cluster, default_cluster, until
from tests.store.conformance.acts import put
from tests.store.load import Bystander, Load


@pytest.fixture
def cluster() -> Cluster:
    return default_cluster()


@pytest.mark.parametrize("seed", range(5))
def test_a_cluster_agrees_with_the_reference_as_one_server_does(
    cluster: Cluster, seed: int
) -> None:
    clock = VirtualClock()
    store = RedisStore(cluster.url(f"lives{seed}"), clock=clock)
    lives = Lives(SeededChooser(seed), clock, MemoryStore(clock), store)
    for _ in range(200):
        lives.step()
    store.close()


def test_partitions_are_on_several_servers_and_ring_from_all_of_them(cluster: Cluster) -> None:
    store = RedisStore(cluster.url("many", partitions=12))
    assert len({cluster.serving(part.slot) for part in store._parts}) == PRIMARIES
    ear = store.bell.listen()
    for number in range(12):
        put(Desk(store), f"q{number}")
    heard: set[str] = set()
    while len(heard) < 12:
        news = ear.wait(10)
        assert news
        heard |= news
    ear.close()
    store.close()


def test_nothing_a_replica_has_acknowledged_is_lost_in_a_failover(cluster: Cluster) -> None:
    with Load(cluster.url("failover", ack="replica", patience=20, partitions=3)) as load:
        load.wait_for(200)
        victim = cluster.serving(home_slot(load))
        cluster.servers[victim].kill()
        until(cluster.leads, "the failover", cluster.partner(victim))
        cluster.servers[victim].start()
        load.wait_for(200)
        load.assert_nothing_lost()
        until(cluster.follows, "the return of the old primary", victim)


def test_a_primary_that_is_stuck_is_left_for_its_successor(cluster: Cluster) -> None:
    url = partial(cluster.url, "stuck", partitions=3)
    with Load(url(ack="replica", patience=20)) as load:
        load.wait_for(100)
        bystander = Bystander(url(patience=3))
        victim = cluster.serving(home_slot(load))
        cluster.servers[victim].signal(signal.SIGSTOP)
        until(cluster.leads, "the failover", cluster.partner(victim))
        for _ in range(3):  # one for each partition
            bystander.enqueue()
        assert bystander.hears_of("news")
        cluster.servers[victim].signal(signal.SIGCONT)
        load.wait_for(100)
        load.acknowledged += bystander.enqueued
        load.assert_nothing_lost()
        assert load.troubles == []
        bystander.close()
        until(cluster.follows, "the return of the old primary", victim)


def home_slot(load: Load) -> int:
    store = load.desk.store
    assert isinstance(store, RedisStore)
    return store._parts[0].slot


def test_a_failover_by_hand_interrupts_nobody(cluster: Cluster) -> None:
    with Load(cluster.url("byhand", patience=20)) as load:
        load.wait_for(100)
        old = cluster.serving(home_slot(load))
        cluster.run(cluster.partner(old), "CLUSTER FAILOVER")
        until(cluster.leads, "the failover", cluster.partner(old))
        load.wait_for(100)
        load.assert_nothing_lost()
        assert load.troubles == []


def test_nothing_is_lost_while_a_slot_moves_key_by_key(cluster: Cluster) -> None:
    with Load(cluster.url("bykey", patience=30)) as load:
        load.wait_for(200)
        slot = home_slot(load)
        source = cluster.serving(slot)
        for target in (cluster.another(source), source):
            begin_to_move(cluster, slot, target)
            load_is_held_up(load)
            move_keys(cluster, slot, target)
            load.wait_for(200)
        load.assert_nothing_lost()
        assert load.troubles == []


def begin_to_move(cluster: Cluster, slot: int, target: int) -> None:
    source = cluster.serving(slot)
    cluster.run(target, "CLUSTER SETSLOT", slot, "IMPORTING", cluster.name(source))
    cluster.run(source, "CLUSTER SETSLOT", slot, "MIGRATING", cluster.name(target))
    # Half of them are here, half are there: nobody must be served now.
    keys = cluster.run(source, "CLUSTER GETKEYSINSLOT", slot, 10_000)
    migrate(cluster, source, target, keys[::2])


def load_is_held_up(load: Load) -> None:
    """Nobody gets an answer while the keys are in two places."""
    before = len(load.acknowledged)
    with pytest.raises(AssertionError):
        load.wait_for(1, patience=0.5)
    assert len(load.acknowledged) <= before + 14  # what was answered at the very moment


def move_keys(cluster: Cluster, slot: int, target: int) -> None:
    source = cluster.serving(slot)
    while keys := cluster.run(source, "CLUSTER GETKEYSINSLOT", slot, 1000):
        migrate(cluster, source, target, keys)
    for number in (target, source):
        cluster.run(number, "CLUSTER SETSLOT", slot, "NODE", cluster.name(target))


def migrate(cluster: Cluster, source: int, target: int, keys: list[bytes]) -> None:
    where = (HOST, cluster.servers[target].port, "", 0, 5000)
    if keys:
        cluster.run(source, "MIGRATE", *where, "KEYS", *keys)


def test_nothing_is_lost_while_a_slot_moves_at_a_stroke(cluster: Cluster) -> None:
    with Load(cluster.url("stroke", patience=30)) as load:
        load.wait_for(200)
        slot = home_slot(load)
        source = cluster.serving(slot)
        target = cluster.another(source)
        move = ("SLOTSRANGE", slot, slot, "NODE", cluster.name(target))
        cluster.run(source, "CLUSTER MIGRATESLOTS", *move)
        until(lambda: cluster.serving(slot) == target, "the move")
        load.wait_for(200)
        load.assert_nothing_lost()


def test_copies_are_all_in_one_partition(cluster: Cluster) -> None:
    store = RedisStore(cluster.url("copies", partitions=4))
    ids = Desk(store).intake.enqueue_copies(Job("q"), [b"1"] * 300)
    assert len({job_id >> 44 for job_id in ids}) == 1
    store.close()
