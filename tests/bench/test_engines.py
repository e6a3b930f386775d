"""The engines of the bench: servers of its own, new places, and loops that are queues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from bench.engines import postgres as postgres_engine
from bench.engines import redis as redis_engine
from bench.engines.engine import Engine, Idler, Place, Raw
from bench.engines.server import NoServer, free_port, server
from bench.footprint import descendants
from tests.bench.conftest import open_to_servers
from tests.worker.waiting import until

SERVERS = ("redis", "postgres")
MANY = 20_000
"""So many jobs that what a server does besides, some 100 kB, weighs little beside them."""
LOOPS = [
    ("redis", "raw, lists, leases in bulk"),
    ("redis", "raw, lists"),
    ("redis", "raw, hashes"),
    ("postgres", "raw, two commits"),
    ("postgres", "raw, two commits, batches of 500"),
    ("postgres", "raw, one commit"),
]


def raw(engine: Engine, name: str) -> Raw:
    (found,) = [raw for raw in engine.raws if raw.name == name]
    return found


def ask(place: Place) -> None:
    """One command or query."""
    if place.url.startswith("redis:"):
        with closing(redis.Redis.from_url(place.url)) as client:
            client.get("a")
    else:
        with closing(psycopg.connect(place.url, autocommit=True)) as connection:
            connection.execute("SELECT 1")


def test_every_loop_is_tried_here(engines: dict[str, Engine]) -> None:
    assert [(name, raw.name) for name in SERVERS for raw in engines[name].raws] == LOOPS


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("redis", ("Valkey", "redis-py", "hiredis", "appendonly yes", "appendfsync everysec")),
        ("postgres", ("PostgreSQL", "psycopg", "fsync on", "synchronous_commit on")),
    ],
)
def test_an_engine_tells_its_versions_and_what_it_would_keep_in_a_crash(
    engines: dict[str, Engine], name: str, wanted: tuple[str, ...]
) -> None:
    told = " ".join(engines[name].facts())
    assert [word for word in wanted if word not in told] == []


@pytest.mark.parametrize(("name", "loop"), LOOPS)
def test_a_loop_hands_out_what_it_was_given_and_forgets_what_is_done(
    engines: dict[str, Engine], tmp_path: Path, name: str, loop: str
) -> None:
    engine = engines[name]
    with engine.place(tmp_path) as place, closing(raw(engine, loop).open(place)) as queue:
        queue.fill(5)
        first = queue.claim(2)
        assert queue.unfinished() == 5
        second = queue.swap(first, 2)
        assert (len(first), len(second), queue.unfinished()) == (2, 2, 3)
        queue.finish(second)
        assert queue.unfinished() == 1


@pytest.mark.parametrize(("name", "loop"), LOOPS)
def test_a_loop_drains_a_queue_to_its_end(
    engines: dict[str, Engine], tmp_path: Path, name: str, loop: str
) -> None:
    engine = engines[name]
    with engine.place(tmp_path) as place, closing(raw(engine, loop).open(place)) as queue:
        queue.fill(6)
        raw(engine, loop).drain(queue, 6, 2)
        assert queue.unfinished() == 0


@pytest.mark.parametrize(("name", "loop"), LOOPS)
def test_nobody_but_the_holder_of_a_lease_can_end_it(
    engines: dict[str, Engine], tmp_path: Path, name: str, loop: str
) -> None:
    engine = engines[name]
    with engine.place(tmp_path) as place, closing(raw(engine, loop).open(place)) as queue:
        queue.fill(1)
        (job,) = queue.claim(1)
        other = b"9" + job if isinstance(job, bytes) else job
        queue.claim(0)  # from here on its holder has another token
        queue.finish([other])
        assert queue.unfinished() == 1


@pytest.mark.parametrize("name", SERVERS)
def test_a_place_is_empty_and_weighs_what_is_put_into_it(
    engines: dict[str, Engine], tmp_path: Path, name: str
) -> None:
    engine = engines[name]
    with engine.place(tmp_path) as place, closing(engine.raws[0].open(place)) as queue:
        assert queue.unfinished() == 0
        before = place.weight()
        queue.fill(MANY)
        place.settle()
        assert 100 < (place.weight() - before) / MANY < 1_000
        with engine.place(tmp_path) as other:
            assert other.url != place.url


@pytest.mark.parametrize("name", SERVERS)
def test_what_each_worker_asks_for_is_counted_apart(
    engines: dict[str, Engine], tmp_path: Path, name: str
) -> None:
    engine = engines[name]
    with engine.place(tmp_path) as busy, engine.place(tmp_path) as idle:

        def meanwhile() -> None:
            for _ in range(7):
                ask(busy)

        counts = engine.asked([Idler(busy, []), Idler(idle, [])], meanwhile)
    assert counts[0] >= 7
    assert counts[1] == 0


def test_beside_an_old_snapshot_a_postgres_may_clear_nothing_away(
    engines: dict[str, Engine], tmp_path: Path
) -> None:
    pinned = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    engine = engines["postgres"]
    with engine.place(tmp_path) as place, closing(psycopg.connect(place.url)) as connection:
        connection.autocommit = True
        snapshot = engine.old_snapshot(place)
        assert snapshot is not None
        with snapshot:
            held = connection.execute(f"{pinned} AND backend_xmin IS NOT NULL").fetchall()
        assert held == [(1,)]
        # The server hears of the end a little later.
        until(lambda: connection.execute(pinned).fetchall() == [(0,)], "the snapshot is let go")


# -- servers -------------------------------------------------------------------------------


def test_a_server_is_ended_with_the_block(tmp_path: Path) -> None:
    pids: list[int] = []

    def command(_: int) -> list[str]:
        return ["sleep", "600"]

    def answers(_: int, pid: int) -> bool:
        pids.append(pid)
        return True

    with server(command, answers, tmp_path / "log") as port:
        assert port > 0
        os.kill(pids[0], 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_server_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    def command(_: int) -> list[str]:
        return ["sh", "-c", "echo no such disk; exit 1"]

    quoted = pytest.raises(NoServer, match="does not start: no such disk")
    with quoted, server(command, lambda *_: False, tmp_path / "log"):
        raise AssertionError("it must not come to this")


def test_a_server_that_somebody_else_started_is_refused(
    engines: dict[str, Engine], tmp_path: Path
) -> None:
    refused = pytest.raises(NoServer, match="is not the one that was started")
    with refused, engines["redis"].place(tmp_path) as place:
        redis_engine._answers(port_of(place), os.getpid())
    with refused, engines["postgres"].place(tmp_path) as place:
        postgres_engine._answers(port_of(place), os.getpid(), tmp_path)


def port_of(place: Place) -> int:
    port = urlsplit(place.url).port
    assert port is not None
    return port


def test_a_run_that_is_told_to_end_leaves_nothing_behind() -> None:
    with open_to_servers() as folder:
        words = ["peers", "--engine", "redis", "--no-peers", "--quick", "--dir", str(folder)]
        run = subprocess.Popen(
            [sys.executable, "-m", "bench", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert run.stderr is not None
        with run, run.stderr as lines:
            assert "peers: enqueuing and draining\n" in lines
            family = descendants(run.pid)
            run.terminate()
            assert run.wait(60) == 128 + signal.SIGTERM
        assert len(family) > 1
        assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []
        assert list(folder.iterdir()) == []


def test_a_server_that_is_not_up_yet_does_not_answer(tmp_path: Path) -> None:
    port = free_port()
    assert not redis_engine._answers(port, os.getpid())
    assert not postgres_engine._answers(port, os.getpid(), tmp_path)
