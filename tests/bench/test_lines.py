"""Queues of ours that real workers drain: short and long, with keys, and on a Cluster."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench import backlog, cluster
from bench.engines import cluster as shards
from bench.engines.cluster import Partitioned, Wished
from bench.engines.engine import Engine
from bench.engines.redis import Numbered
from bench.engines.sqlite import Sqlite
from bench.line import opened
from bench.ours import AT_ONCE_FORGOTTEN, QUEUE, fill, unfinished
from bench.plan import Setup, quietly
from bench.raw import PAYLOAD
from bench.result import Result
from stoker.store import Claim
from stoker.store.open import open_store
from tests.bench.conftest import open_to_servers
from tests.bench.tiny import TINY, unreal_figures


def wanted(result: Result) -> list[tuple[str, float]]:
    assert min(target.reached for target in result.targets) > 0
    return [(target.what, target.wanted) for target in result.targets]


def test_a_turn_fills_the_queue_and_leaves_it_empty(tmp_path: Path) -> None:
    with opened(Sqlite(), tmp_path) as line:
        line.configure(AT_ONCE_FORGOTTEN)
        assert line.turn(50) > 0
        with closing(open_store(line.stage.place.url)) as store:
            (view,) = store.survey()
    assert (view.settings, set(view.counts.values())) == (AT_ONCE_FORGOTTEN, {0})


def test_a_queue_is_as_long_as_before_when_it_is_filled_up(tmp_path: Path) -> None:
    with opened(Sqlite(), tmp_path) as line:
        line.fill(300)
        assert line.drain(100) > 0
        line.fill_up(300)
        with closing(open_store(line.stage.place.url)) as store:
            assert unfinished(store) == 300


def test_jobs_have_as_many_keys_as_were_asked_for_by_turns(tmp_path: Path) -> None:
    with opened(Sqlite(), tmp_path, keys=3) as line:
        line.fill(2)
        line.fill(3)
        with closing(open_store(line.stage.place.url)) as store:
            (jobs,) = store.transact((), [Claim((QUEUE,), 9, token=1)]).grants
    keys = [job.key for job in jobs or ()]
    assert keys == ["tenant 0", "tenant 1", "tenant 2", "tenant 0", "tenant 1"]


# -- short queue, long queue ---------------------------------------------------------------


def test_on_postgres_the_long_queue_is_drained_after_churn_and_beside_a_snapshot(
    engines: dict[str, Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.backlog._CYCLES", 1)
    result = backlog.run(engines["postgres"], Setup(TINY, tmp_path, quietly))
    assert wanted(result) == [
        ("drain, 200 jobs queued ÷ 100", 0.85),
        ("drain, 200 jobs queued, as many come and gone ÷ 100", 0.85),
        ("drain, 200 jobs queued, beside an old snapshot ÷ 100", 0.85),
    ]
    (table,) = result.tables
    assert [row[0] for row in table.rows] == [
        "100",
        "200",
        "100",
        "200, as many come and gone",
        "100",
        "200, beside an old snapshot",
    ]
    assert unreal_figures(result.tables) == []


# -- the Cluster ---------------------------------------------------------------------------


def test_a_cluster_is_measured_beside_one_server(engines: dict[str, Engine]) -> None:
    with open_to_servers() as folder:
        result = cluster.run(engines["redis"], Setup(TINY, folder, quietly))
    assert wanted(result) == [("drain, 3 servers, 3 partitions ÷ one server, 3 partitions", 1.0)]
    assert [len(table.rows) for table in result.tables] == [3]
    assert unreal_figures(result.tables) == []


def test_a_cluster_is_empty_for_whoever_comes_and_each_server_gets_its_share() -> None:
    with open_to_servers() as folder, shards.started(folder, 3) as servers:
        for _ in range(2):
            with (
                Partitioned(servers, 3).place(folder) as place,
                closing(open_store(place.url)) as store,
            ):
                before, empty = list(store.survey()), memory(place)
                fill(store, 3_000)
                grown = [late - early for late, early in zip(memory(place), empty, strict=True)]
            assert before == []
            assert min(grown) > 1_000 * len(PAYLOAD)


def memory(place: Wished) -> list[int]:
    """Of each server of a Cluster."""
    ports = [int(host.rpartition(":")[2]) for host in urlsplit(place.url).netloc.split(",")]
    return [Numbered(port, 0).weight() for port in ports]
