"""Every benchmark still runs and finds its figures; how good they are is nobody's business here."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bench import page
from bench.__main__ import chosen_plan, main, measure, parser
from bench.benches import bench, names
from bench.engines import ENGINES
from bench.engines.sqlite import Sqlite
from bench.loop import Loop
from bench.machine import Machine, filesystem
from bench.ours import DeskLoop, StoreLoop
from bench.plan import DEFAULT, FULL, Plan, Setup, down_to, portions, quietly
from bench.raw import RawLoop
from bench.result import Column, Report, Result, Table, Target, markdown
from bench.stopwatch import lower_ratio, percentile, race, ratio
from stoker.store.sqlite.driver import Sync
from tests.bench.tiny import TINY, unreal_figures

MACHINE = Machine("1", "3", "Linux", "a processor", 2, "ext4", 90.0, 200.0)
SMALL = Table("Speed", (Column("loop"), Column("jobs/s", ",.0f")), (("raw", 1234.5), ("us", None)))


def report_of(*targets: Target, engine: str = "sqlite") -> Report:
    results = {"claims": Result((SMALL,), targets)}
    return Report("2026-01-02", engine, MACHINE, ["Engine 9, sync on"], TINY, results)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """A benchmark's results; each is run once."""

    @functools.cache
    def result(name: str) -> Result:
        return bench(name, Sqlite())(Setup(TINY, tmp_path_factory.mktemp(name), quietly))

    return result


ROWS = {
    "claims": [20],
    "inserts": [6],
    "depth": [4],
    "processes": [4],
    "coalescing": [3],
    "wakeups": [2, 1],
    "disk": [2, 11],
    "backlog": [2],
    "policy": [6, 6, 2, 2],
    "bedrock": [2, 2],
    "http": [5],
    "stdio": [3],
    "worqr": [3],
}
"""By benchmark; the one with peers has a file of its own."""


@pytest.mark.parametrize("name", ROWS)
def test_a_benchmark_finds_a_row_of_real_numbers_for_each_contestant(
    run: Callable[[str], Result], name: str
) -> None:
    tables = run(name).tables
    assert [len(table.rows) for table in tables] == ROWS[name]
    assert unreal_figures(tables) == []


def test_every_benchmark_is_tried_here_or_among_peers() -> None:
    assert [*ROWS, "peers"] == names("sqlite")
    everywhere = ["churn", "backlog", "policy", "bedrock", "http", "stdio", "worqr", "peers"]
    assert {engine: names(engine) for engine in ENGINES if engine != "sqlite"} == {
        "redis": [*everywhere, "cluster"],
        "postgres": everywhere,
    }


@pytest.mark.parametrize("name", ["claims", "inserts"])
def test_half_of_the_raw_speed_is_aimed_at(run: Callable[[str], Result], name: str) -> None:
    (target,) = run(name).targets
    assert target.wanted == 0.5
    assert target.reached > 0


def test_most_of_the_unlimited_speed_and_claims_that_do_not_grow_are_aimed_at(
    run: Callable[[str], Result],
) -> None:
    targets = run("policy").targets
    assert [(target.wanted, target.below) for target in targets] == [
        *[(0.6, False)] * 4,
        *[(1.5, True)] * 3,
    ]
    assert min(target.reached for target in targets) > 0


def test_a_lone_thread_commits_as_often_as_it_enqueues(run: Callable[[str], Result]) -> None:
    (table,) = run("coalescing").tables
    commits = {row[:2]: row[4] for row in table.rows}
    assert commits["raw", 1] == commits["desk", 1] == TINY.enqueues
    assert commits["desk", 2] in range(2, TINY.enqueues + 1)


def test_retention_bounds_the_jobs_on_file_and_the_end_is_empty(
    run: Callable[[str], Result],
) -> None:
    rows = run("disk").tables[1].rows
    assert [row[0] for row in rows][-2:] == [TINY.churn, "all swept"]
    assert [row[1] for row in rows] == [*[100] * 10, 0]


@pytest.mark.parametrize("make", [RawLoop, StoreLoop, DeskLoop])
def test_a_loop_hands_out_what_it_was_given_and_forgets_what_is_done(
    tmp_path: Path, make: Callable[[Path, Sync], Loop]
) -> None:
    loop = make(tmp_path / "jobs.db", Sync.NORMAL)
    loop.fill(5)
    first = loop.claim(2)
    assert loop.unfinished() == 5
    second = loop.swap(first, 2)
    assert (len(first), len(second), loop.unfinished()) == (2, 2, 3)
    loop.finish(second)
    assert loop.unfinished() == 1
    loop.close()


@pytest.mark.parametrize("sync", Sync)
@pytest.mark.parametrize(
    "setting",
    ["cache_size", "journal_mode", "page_size", "synchronous", "wal_autocheckpoint"],
)
def test_both_sides_have_the_same_settings(tmp_path: Path, sync: Sync, setting: str) -> None:
    raw, ours = RawLoop(tmp_path / "raw.db", sync), StoreLoop(tmp_path / "ours.db", sync)
    found = [
        connection.execute(f"PRAGMA {setting}").get
        for connection in (raw._connection, ours.store._writer)
    ]
    raw.close()
    ours.close()
    assert found[0] == found[1]


def test_contestants_take_turns_and_the_first_round_does_not_count() -> None:
    turn = itertools.count(1).__next__
    assert race({"a": turn, "b": turn}, 2, quietly, "") == {"a": [3, 5], "b": [4, 6]}


def test_a_race_may_go_without_warming_up() -> None:
    turn = itertools.count(1).__next__
    assert race({"a": turn, "b": turn}, 2, quietly, "", warm_ups=0) == {"a": [1, 3], "b": [2, 4]}


def test_a_ratio_compares_round_by_round() -> None:
    assert ratio([10, 1, 30], [20, 2, 30]) == 0.5


def test_the_ratio_that_counts_is_the_less_flattering_one() -> None:
    assert lower_ratio([10, 1, 30], [20, 2, 30]) == 0.5
    assert lower_ratio([20, 2, 15], [20, 2, 30]) == 20 / 30


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(value) for value in range(200, 0, -1)]
    assert [percentile(values, percent) for percent in (0, 50, 99, 100)] == [1, 101, 199, 200]


def test_portions_add_up() -> None:
    assert portions(2_500) == [1_000, 1_000, 500]
    assert portions(0) == []


def test_the_file_system_is_the_one_of_the_innermost_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"a / ext4 rw\nb {tmp_path} xfs rw\nc {tmp_path}/other tmpfs rw\n")
    monkeypatch.setattr("bench.machine._MOUNTS", mounts)
    assert filesystem(tmp_path) == "xfs"
    monkeypatch.setattr("bench.machine._MOUNTS", tmp_path / "missing")
    assert filesystem(tmp_path) == "an unknown file system"


# -- the page ------------------------------------------------------------------------------


def test_a_table_is_markdown_with_its_numbers_to_the_right() -> None:
    lines = ["### Speed", "", "| loop | jobs/s |", "|---|---:|", "| raw | 1,234 |", "| us |  |"]
    assert markdown(SMALL).splitlines() == lines


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    table = Table("Words", (Column("said"),), (("this | that",),))
    assert markdown(table).splitlines()[-1] == "| this \\| that |"


def test_a_target_says_on_which_side_of_it_we_want_to_be() -> None:
    late = Target("latency", 3.0, 3.1, "{:.1f} ms", below=True)
    assert late.row() == ("latency", "≤ 3.0 ms", "3.1 ms", "fail")
    assert Target("speed", 3.0, 3.0, "{:.1f}").row() == ("speed", "≥ 3.0", "3.0", "pass")


def test_the_page_gets_new_results_and_keeps_its_words() -> None:
    other = "<!-- redis begins -->\nother\n<!-- redis ends -->\n"
    old = f"# Page\n\n<!-- sqlite begins -->\nold\n<!-- sqlite ends -->\n\nMore.\n{other}"
    new = page.rewritten(old, report_of(Target("be fast", 0.5, 0.6), Target("be sure", 1.0, 0.9)))
    assert new.startswith("# Page\n\n<!-- sqlite begins -->\n\n- taken on 2026-01-02\n")
    assert new.endswith(f"| us |  |\n\n<!-- sqlite ends -->\n\nMore.\n{other}")
    assert "- Engine 9, sync on\n" in new
    assert "| be fast | ≥ 50% | 60% | pass |\n| be sure | ≥ 100% | 90% | fail |\n" in new
    assert "old" not in new
    assert page.rewritten(new, report_of()).count("### Targets") == 0


def test_a_page_without_a_place_for_results_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"needs exactly one place for results on sqlite, not 0"):
        page.rewritten("# Page\n", report_of())


@pytest.mark.parametrize("engine", ENGINES)
def test_the_docs_have_a_place_for_results(engine: str) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert "- taken on 2026-01-02\n" in page.rewritten(text, report_of(engine=engine))


# -- the command ---------------------------------------------------------------------------


def test_a_run_shows_its_tables_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = measure("sqlite", ["inserts"], TINY, tmp_path)
    shown = capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert list(report.results) == ["inserts"]
    assert "### Bulk insert, 1,000 jobs a commit" in shown
    assert "### Targets" in shown
    assert msgspec.json.decode(msgspec.json.encode(report))["plan"]["name"] == "tiny"


def test_sizes_follow_the_options() -> None:
    def asked(*words: str) -> Plan:
        return chosen_plan(parser().parse_args(words))

    assert asked() == DEFAULT
    assert asked("--full") == FULL
    often = asked("--rounds", "9")
    assert (often.rounds, often.worker_rounds, often.peers.rounds) == (9, 9, 9)
    assert asked("--quick", "--depth", "20000").depths == (1_000, 10_000, 20_000)
    assert down_to(DEFAULT, 5_000_000).depths == FULL.depths


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["speed"], "no benchmark of sqlite is called 'speed'; there are claims, inserts"),
        (
            ["claims", "--engine", "redis"],
            "no benchmark of redis is called 'claims'; there are",
        ),
        (["--engine", "files"], "invalid choice: 'files'"),
        (["claims", "--write"], "--write takes a whole run"),
        (["--dir", "no/such/folder"], "is no folder"),
        (["--rounds", "0"], "give a number of at least 1"),
        (["--quick", "--full"], "not allowed with argument"),
    ],
)
def test_a_wrong_command_is_told_what_is_wrong(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert complaint in capsys.readouterr().err


def test_the_command_keeps_the_figures_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.__main__.QUICK", TINY)
    file = tmp_path / "figures.json"
    main(["inserts", "--quick", "--dir", str(tmp_path), "--json", str(file)])
    kept = msgspec.json.decode(file.read_bytes())
    assert list(kept["results"]) == ["inserts"]
    assert kept["results"]["inserts"]["targets"][0]["wanted"] == 0.5
