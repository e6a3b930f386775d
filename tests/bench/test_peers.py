"""The comparison with other job queues, without them: there is no network here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers.cast import OURS, PEERS, Contestant, ours
from bench.peers.contest import run
from bench.peers.drain import drain
from bench.peers.fetch import fetch
from bench.peers.footprint import descendants, footprint
from bench.peers.lineup import Lineup, line_up, whole
from bench.peers.stage import Stage, Trouble, enqueuer, workers
from bench.plan import Setup, quietly
from bench.result import Result, Target
from tests.bench.tiny import TINY, unreal_figures


def player(script: str) -> Contestant:
    """A contestant whose driver is a script."""
    return Contestant("player", (sys.executable, "-c", script), os.environ)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(Setup(TINY, tmp_path_factory.mktemp("peers"), quietly))


def target(result: Result, words: str) -> Target:
    (found,) = [target for target in result.targets if words in target.what]
    return found


def test_all_measures_find_real_numbers(result: Result) -> None:
    assert [len(table.rows) for table in result.tables] == [5, 3, 3, 2, 2]
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
        ("drain, 200 jobs queued ÷ 100", 0.85, False),
    ],
)
def test_a_target_is_set_for_each_measure(
    result: Result, words: str, wanted: float, below: bool
) -> None:
    found = target(result, words)
    assert (found.wanted, found.below) == (wanted, below)
    assert found.reached >= 0


def test_without_peers_there_is_no_target_beside_them(result: Result) -> None:
    assert len(result.targets) == 8


# -- fetching ------------------------------------------------------------------------------


def test_a_peer_that_cannot_be_installed_is_absent_for_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise subprocess.CalledProcessError(1, "pip", stderr="hm\nERROR: no such version\n")

    monkeypatch.setattr("bench.peers.fetch.subprocess.run", refuse)
    lineup = line_up(Setup(TINY, tmp_path, quietly, tmp_path / "shelf"))
    assert [one.name for one in lineup.contestants] == list(OURS)
    reasons = {row[0].split()[0]: row[-1] for row in lineup.table().rows if isinstance(row[0], str)}
    assert reasons["huey"] == "absent: ERROR: no such version"


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


def test_a_peer_that_fails_is_out_from_then_on(tmp_path: Path) -> None:
    def fail() -> str:
        raise Trouble("no luck")

    one = player("")
    lineup = Lineup([one], {})
    assert lineup.attempt(one, lambda: "played") == "played"
    assert lineup.attempt(one, fail) is None
    assert lineup.attempt(one, lambda: "played") is None


def test_we_ourselves_must_not_fail() -> None:
    def fail() -> None:
        raise Trouble("no luck")

    with pytest.raises(Trouble, match="no luck"):
        Lineup([], {}).attempt(ours("async"), fail)


def test_only_those_who_came_through_every_round_count() -> None:
    rounds: dict[str, list[int | None]] = {"a": [1, 2], "b": [1, None]}
    assert whole(rounds) == {"a": [1, 2]}


def test_a_process_that_ends_too_soon_is_quoted(tmp_path: Path) -> None:
    stage = Stage(player("raise SystemExit('the disk is gone')"), tmp_path)
    quoted = pytest.raises(Trouble, match="player ended before it should: the disk is gone")
    with quoted, enqueuer(stage):
        raise AssertionError("it must not come to this")


def test_words_of_the_driver_are_told_from_its_chatter(tmp_path: Path) -> None:
    script = "print('hello'); print('bench open 1 2.5'); print(); input(); print('bench done 7')"
    with enqueuer(Stage(player(script), tmp_path)) as company:
        assert company.order("anything").figures == (7.0,)


def test_copies_of_a_worker_are_heard_through_one_pipe(tmp_path: Path) -> None:
    script = "import os, time; os.write(1, b'bench ready %d\\n' % os.getpid()); time.sleep(600)"
    stage = Stage(player(script)._replace(fleet=PEERS[1].fleet), tmp_path)
    with workers(stage, 2) as company:
        heard = {company.hear("ready").figures[0] for _ in range(2)}
        assert heard == {process.pid for process in company.processes}
    assert all(process.returncode is not None for process in company.processes)


def test_a_drain_ends_when_its_time_is_up_and_counts_what_was_done(tmp_path: Path) -> None:
    with enqueuer(Stage(ours("sync"), tmp_path)) as till:
        till.order("many 20")
        drained = drain(Stage(ours("sync"), tmp_path), 1, jobs=1_000_000, seconds=1.0)
    assert drained.jobs == 20
    assert drained.rate > 0


# -- the footprint -------------------------------------------------------------------------


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three generations, and somebody else."""
    monkeypatch.setattr("bench.peers.footprint._PROC", tmp_path)
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
    (proc / "self").symlink_to(proc / "1")
    ticks = os.sysconf("SC_CLK_TCK")
    assert footprint([1]) == (2 * 321 / ticks, 321_000)
    assert footprint([4, 300]) == (2 * 304 / ticks, 304_000)


def test_where_nobody_tells_there_is_no_footprint(proc: Path) -> None:
    assert footprint([1]) is None
