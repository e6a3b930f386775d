"""Worqr beside the original, which is there, is broken, or cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.engines.sqlite import Sqlite
from bench.plan import Setup, quietly
from bench.result import Result
from bench.worqr import ORIGINAL, run
from tests.bench.tiny import TINY, unreal_figures


class LikeRedis(Sqlite):
    """An engine on which the original is looked for."""

    name = "redis"


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Where the original is said to be installed."""
    home = ORIGINAL.home(tmp_path / "shelf")
    home.mkdir(parents=True)
    (home / "complete").touch()
    return tmp_path / "shelf"


def measured(
    tmp_path: Path, shelf: Path | None, monkeypatch: pytest.MonkeyPatch, node: str = ""
) -> Result:
    """What is found where Node does as it is told here."""
    program = tmp_path / "node"
    program.write_text(f"#!/bin/sh\n{node}\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return run(LikeRedis(), Setup(TINY, tmp_path, quietly, shelf))


def test_the_original_is_set_beside_ours(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = measured(tmp_path, shelf, monkeypatch, 'echo "bench rate 0.5"')
    (table,) = result.tables
    assert [row[3] for row in table.rows] == [0.5] * 3
    for _, ours, _, _, ratio in table.rows:
        assert isinstance(ours, float)
        assert ratio == pytest.approx(ours / 0.5)
    assert "worqr 1.2.3" in table.note
    assert [target.wanted for target in result.targets] == [5.0] * 3


@pytest.mark.parametrize("word", ["Error: it has no such word", ""])
def test_an_original_that_is_broken_is_out_and_we_are_measured(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    result = measured(tmp_path, shelf, monkeypatch, f'echo "{word}" >&2; exit 1')
    (table,) = result.tables
    assert table.note.endswith(f"is out: {word or 'no word'}.")
    assert ([len(row) for row in table.rows], result.targets) == ([3, 3, 3], ())
    assert unreal_figures([table]) == []


def test_one_that_was_not_asked_for_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (table,) = measured(tmp_path, None, monkeypatch).tables
    assert table.note.endswith("is absent: not asked for.")
