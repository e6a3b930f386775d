"""The comparison with other job queues, without them: there is no network here."""

from __future__ import annotations

import ast
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.engines.engine import Engine
from bench.engines.sqlite import Sqlite
from bench.footprint import descendants, is_told, processor, written
from bench.peers import on_sqlite, waiting
from bench.peers.cast import OURS, Contestant, Peer, ours
from bench.peers.contest import CONTESTS, run
from bench.peers.drain import drain, drain_out
from bench.peers.fetch import fetch
from bench.peers.goals import Goals, Rival, peer_called
from bench.peers.lineup import Lineup, all_of_ours, line_up, whole
from bench.peers.stage import Stage, Trouble, enqueuer, staged, workers
from bench.peers.targets import drain_targets, enqueue_targets, waiting_targets
from bench.peers.throughput import Turn
from bench.peers.waiting import Idle, Wait
from bench.plan import Setup, quietly
from bench.result import Result, Target
from stoker import State
from stoker.store.open import open_store
from tests.bench.tiny import TINY, unreal_figures

KEPT = "Stoker, async, finished kept"
PEERS = on_sqlite.PEERS
ALL_PEERS = [peer for contest in CONTESTS.values() for peer in contest.peers]


def player(script: str) -> Contestant:
    """A contestant whose driver is a script."""
    return Contestant("player", (sys.executable, "-c", script), os.environ)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(Sqlite(), Setup(TINY, tmp_path_factory.mktemp("peers"), quietly))


def target(result: Result, words: str) -> Target:
    (found,) = [target for target in result.targets if words in target.what]
    return found


def test_all_measures_find_real_numbers(result: Result) -> None:
    assert [len(table.rows) for table in result.tables] == [5, 3, 3, 2]
    assert unreal_figures(result.tables[1:]) == []


def test_stoker_drains_both_kinds_of_handlers_with_one_process_and_with_two(
    result: Result,
) -> None:
    rows = {row[0]: row[1:] for row in result.tables[2].rows}
    assert list(rows) == ["raw", *OURS]
    assert rows["raw"][3:] == (None, None, None)
    assert [cell for name in OURS for cell in rows[name] if cell == 0] == []
    assert [len([cell for cell in rows[name] if cell is not None]) for name in OURS] == [4, 6]


def test_peers_that_are_not_there_are_named_with_the_reason(result: Result) -> None:
    rows = result.tables[0].rows
    assert [row[0] for row in rows] == [
        "huey 3.5.4",
        "litequeue 0.9",
        "persist-queue 1.1.0",
        "taskito 0.22.0",
        "plainjob 0.0.14, better-sqlite3 12.11.1",
    ]
    assert {row[-1] for row in rows} == {"absent: not asked for"}


def test_every_latency_that_was_asked_for_is_taken(result: Result) -> None:
    assert [row[:3] for row in result.tables[3].rows] == [
        (name, "is woken", TINY.peers.latencies) for name in OURS
    ]


@pytest.mark.parametrize(
    ("words", "wanted", "below"),
    [
        ("drain, Stoker, async, 1 process ÷ raw", 0.4, False),
        ("drain, Stoker, sync, 1 process ÷ raw", 0.4, False),
        ("bulk enqueue, Stoker ÷ raw", 0.5, False),
        ("latency, Stoker, async, p50", 3.0, True),
        ("latency, Stoker, sync, p50", 3.0, True),
        ("idle worker, Stoker, async", 0.005, True),
        ("idle worker, Stoker, sync", 0.005, True),
    ],
)
def test_a_target_is_set_for_each_measure(
    result: Result, words: str, wanted: float, below: bool
) -> None:
    found = target(result, words)
    assert (found.wanted, found.below) == (wanted, below)
    assert found.reached >= 0


def test_without_peers_there_is_no_target_beside_them(result: Result) -> None:
    assert len(result.targets) == 7


# -- what is left of a finished job --------------------------------------------------------


def kept_by(one: Contestant, engine: Engine, folder: Path, jobs: int) -> int:
    """So many jobs are done, and one more; how many are still there?"""
    with staged(one, engine, folder) as stage, enqueuer(stage) as till:
        queued = till.enqueue("single", 1).jobs + till.enqueue("many", jobs).jobs
        assert drain_out(stage, 1, queued, seconds=60.0).jobs == queued == jobs + 1
        with closing(open_store(stage.place.url)) as store:
            return sum(view.counts[State.FINISHED] for view in store.survey())


@pytest.mark.parametrize(
    ("name", "kept"), [("sqlite", [10, 10]), ("redis", [0, 0, 10]), ("postgres", [0, 0, 10])]
)
def test_stoker_keeps_finished_jobs_where_the_bare_loops_do_and_elsewhere_beside_itself(
    engines: dict[str, Engine], tmp_path: Path, name: str, kept: list[int]
) -> None:
    engine = Sqlite() if name == "sqlite" else engines[name]
    assert [kept_by(one, engine, tmp_path, 9) for one in all_of_ours(engine)] == kept


def test_one_that_keeps_finished_jobs_is_not_watched_while_it_waits(
    engines: dict[str, Engine], tmp_path: Path
) -> None:
    *both, kept = all_of_ours(engines["redis"])
    assert ([one.name for one in both], kept.name) == (list(OURS), KEPT)
    lineup = Lineup(engines["redis"], [kept])
    assert waiting.measure(Setup(TINY, tmp_path, quietly), lineup) == []


@pytest.mark.parametrize("peer", ALL_PEERS, ids=lambda peer: peer.packages)
def test_a_peer_tells_what_it_keeps(peer: Peer) -> None:
    assert "kept" in peer.worker


# -- the cast ------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", ALL_PEERS, ids=lambda peer: peer.packages)
def test_a_peer_has_a_driver_that_can_be_read_and_a_home_with_a_plain_name(peer: Peer) -> None:
    drivers = Path(on_sqlite.__file__).parent / "drivers"
    driver = drivers / (peer.driver if peer.on_node else f"{peer.driver}.py")
    text = driver.read_text(encoding="utf-8")
    if not peer.on_node:
        ast.parse(text)
    assert "enqueue" in text and "work" in text
    name = peer.home(Path("shelf")).name
    assert name.replace("-", "").replace(".", "").replace("_", "").isalnum()


def test_another_version_has_another_home() -> None:
    homes = {peer.home(Path("shelf")): peer.pins for peer in ALL_PEERS}
    assert len(homes) == len({peer.pins for peer in ALL_PEERS})


# -- goals ---------------------------------------------------------------------------------

TURNS = {
    "raw": [Turn(9.0, 900.0, (1000.0, None), 50.0)],
    OURS[0]: [Turn(6.0, 300.0, (400.0, None), 170.0)],
    OURS[1]: [Turn(6.0, 300.0, (500.0, None), 170.0)],
    KEPT: [Turn(8.0, 800.0, (800.0, None), 20.0)],
    "huey": [Turn(3.0, None, (200.0, None), 60.0)],
    "litequeue": [Turn(2.0, 100.0, (100.0, None), 60.0)],
}


def texts(targets: Iterator[Target]) -> list[str]:
    return [f"{target.what}: {target.reached:g} of {target.wanted:g}" for target in targets]


def test_drains_are_set_beside_the_raw_loop_one_peer_and_the_fastest_of_some() -> None:
    rivals = (peer_called("litequeue", 2.0), Rival("the fastest", 3.0, lambda _: True))
    found = texts(drain_targets(Goals(0.4, rivals), Sqlite(), PEERS, TURNS))
    assert found[:3] == [
        "drain, Stoker, async, 1 process ÷ raw: 0.4 of 0.4",
        "drain, Stoker, async, 1 process ÷ litequeue: 4 of 2",
        "drain, Stoker, async, 1 process ÷ huey, the fastest: 2 of 3",
    ]
    assert len(found) == 6


def test_enqueuing_is_set_beside_the_best_that_can_do_it() -> None:
    goals = Goals(0.4, (), bulk_of_peers=3.0, single_of_peers=1.0, weight=80.0)
    assert texts(enqueue_targets(goals, Sqlite(), PEERS, TURNS)) == [
        "bulk enqueue, Stoker ÷ litequeue, the best peer: 3 of 3",
        "enqueue one by one, Stoker ÷ huey, the best peer: 2 of 1",
        "a queued job, bytes beyond its payload: 70 of 80",
    ]


def test_waiting_is_set_beside_the_soonest_peer_and_idleness_beside_a_limit() -> None:
    waits = [
        Wait((OURS[0], "is woken"), [1.0, 2.0], Idle(0.01, 0.5)),
        Wait(("huey", "looks every 1 ms"), [4.0], Idle(0.2, 900.0)),
        Wait(("litequeue", "is woken"), [3.0], None),
    ]
    goals = Goals(0.4, (), idle_processor=0.005, idle_asked=1.0)
    found = list(waiting_targets(goals, Sqlite(), waits))
    assert texts(iter(found)) == [
        "latency, Stoker, async, p50, beside litequeue that is woken: 2 of 3",
        "idle worker, Stoker, async, of a core: 0.01 of 0.005",
        "idle worker, Stoker, async, bytes written/s: 0.5 of 1",
    ]
    assert [each.ok for each in found] == [True, False, True]


# -- fetching ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("hm\nERROR: no such version\n", "ERROR: no such version"),
        ("npm error code E\nnpm error no such version\nnpm error\n", "npm error no such version"),
        ("npm error 404 None - GET https://there/it\nnpm error\n", "npm error 404 None"),
    ],
)
def test_a_peer_that_cannot_be_installed_is_absent_for_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, reason: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise subprocess.CalledProcessError(1, "pip", stderr=said)

    with monkeypatch.context() as patch:
        patch.setattr("bench.peers.fetch.subprocess.run", refuse)
        lineup = line_up(Setup(TINY, tmp_path, quietly, tmp_path / "shelf"), Sqlite(), PEERS)
    assert [one.name for one in lineup.contestants] == list(OURS)
    assert lineup.table().rows[0][-1] == f"absent: {reason}"
    assert f"Python {platform.python_version()}" in lineup.table().note


def test_a_peer_on_node_needs_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch(PEERS[-1], tmp_path) == "npm is not installed"


def test_a_peer_is_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[object] = []
    monkeypatch.setattr("bench.peers.fetch.subprocess.run", lambda *said, **_: runs.append(said))
    assert [fetch(PEERS[0], tmp_path) for _ in range(2)] == [None, None]
    assert len(runs) == 2  # its environment and its packages
    assert (PEERS[0].home(tmp_path) / "complete").exists()


# -- the stage -----------------------------------------------------------------------------


@pytest.fixture
def engine() -> Engine:
    return Sqlite()


def test_a_peer_that_fails_is_out_from_then_on(engine: Engine) -> None:
    def fail() -> str:
        raise Trouble("no luck")

    one = player("")
    lineup = Lineup(engine, [one])
    assert lineup.attempt(one, lambda: "played") == "played"
    assert lineup.attempt(one, fail) is None
    assert lineup.attempt(one, lambda: "played") is None


def test_we_ourselves_must_not_fail(engines: dict[str, Engine]) -> None:
    def fail() -> None:
        raise Trouble("no luck")

    engine = engines["redis"]
    for one in all_of_ours(engine):
        with pytest.raises(Trouble, match="no luck"):
            Lineup(engine, []).attempt(one, fail)


def test_only_those_who_came_through_every_round_count() -> None:
    rounds: dict[str, list[int | None]] = {"a": [1, 2], "b": [1, None]}
    assert whole(rounds) == {"a": [1, 2]}


def test_a_process_that_ends_too_soon_is_quoted(engine: Engine, tmp_path: Path) -> None:
    one = player("raise SystemExit('the disk is gone')")
    quoted = pytest.raises(Trouble, match="player ended before it should: the disk is gone")
    with staged(one, engine, tmp_path) as stage, quoted, enqueuer(stage):
        raise AssertionError("it must not come to this")


def test_words_of_the_driver_are_told_from_its_chatter(engine: Engine, tmp_path: Path) -> None:
    script = "print('hello'); print('bench open 1 2.5'); print(); input(); print('bench done 7')"
    with staged(player(script), engine, tmp_path) as stage, enqueuer(stage) as company:
        assert company.order("anything") == (7.0,)


def test_copies_of_a_worker_are_heard_through_one_pipe(engine: Engine, tmp_path: Path) -> None:
    script = "import os, time; os.write(1, b'bench ready %d\\n' % os.getpid()); time.sleep(600)"
    one = player(script)._replace(fleet=PEERS[1].fleet)
    with staged(one, engine, tmp_path) as stage, workers(stage, 2) as company:
        heard = {company.hear("ready").figures[0] for _ in range(2)}
        assert heard == {process.pid for process in company.processes}
    assert all(process.returncode is not None for process in company.processes)


TILL = """
import asyncio
from bench.peers.drivers import till

def one(payload):
    assert len(payload) == 98

def many(payloads):
    print("bench many", len(payloads), flush=True)

async def one_later(payload):
    one(payload)

async def many_later(payloads):
    many(payloads)
"""


@pytest.mark.parametrize(
    "serve", ["till.serve(one, many)", "asyncio.run(till.serve_async(one_later, many_later))"]
)
def test_jobs_are_enqueued_singly_or_in_bulk_until_the_time_is_up(
    engine: Engine, tmp_path: Path, serve: str
) -> None:
    with staged(player(TILL + serve), engine, tmp_path) as stage, enqueuer(stage) as company:
        assert company.enqueue("single", 3).jobs == 3
        assert company.enqueue("many", 1_500).jobs == 1_500
        assert company.order("stamp") == ()
        assert company.enqueue("many", 1_500, 0.0).jobs == 0


def test_in_bulk_a_thousand_go_at_once(engine: Engine, tmp_path: Path) -> None:
    one = player(TILL + "till.serve(one, many)")
    with staged(one, engine, tmp_path) as stage, enqueuer(stage) as company:
        mouth = company.processes[0].stdin
        assert mouth is not None
        mouth.write(b"many 1500 60\n")
        mouth.flush()
        assert [company.hear("many").figures[0] for _ in range(2)] == [1000, 500]


def test_a_drain_ends_when_its_time_is_up_and_counts_what_was_done(
    engine: Engine, tmp_path: Path
) -> None:
    with staged(ours("sync"), engine, tmp_path) as stage, enqueuer(stage) as till:
        till.enqueue("many", 20)
        drained = drain(stage, 1, jobs=1_000_000, seconds=1.0)
    assert drained.jobs == 20
    assert drained.rate > 0


def test_a_place_is_new_for_every_stage(engine: Engine, tmp_path: Path) -> None:
    def file(stage: Stage) -> Path:
        return Path(stage.place.url.removeprefix("sqlite:///"))

    with staged(player(""), engine, tmp_path) as one, staged(player(""), engine, tmp_path) as other:
        assert file(one) != file(other)
        assert (one.place.weight(), other.place.weight()) == (0, 0)
    assert list(tmp_path.iterdir()) == []


# -- the footprint -------------------------------------------------------------------------


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three generations, and somebody else."""
    monkeypatch.setattr("bench.footprint._PROC", tmp_path)
    for pid, parent in ((1, 0), (20, 1), (300, 20), (4, 0)):
        (tmp_path / str(pid)).mkdir()
        stat = f"{pid} (a (b) c) S {parent} 0 0 0 0 0 0 0 0 0 {pid} {pid} 0 0"
        (tmp_path / str(pid) / "stat").write_text(stat)
        (tmp_path / str(pid) / "io").write_text(f"wchar: 99\nwrite_bytes: {1000 * pid}\n")
    return tmp_path


def test_a_family_is_a_process_and_all_that_came_of_it(proc: Path) -> None:
    assert descendants(1) == [1, 20, 300]
    assert descendants(300) == [300]


def test_a_footprint_is_that_of_the_whole_family(proc: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    assert (processor([1]), written([1])) == (2 * 321 / ticks, 321_000)
    assert (processor([4, 300]), written([4, 300])) == (2 * 304 / ticks, 304_000)


def test_where_nobody_tells_there_is_no_footprint(proc: Path) -> None:
    assert not is_told()
    (proc / "self").symlink_to(proc / "1")
    assert is_told()
