"""Where the project's files are, for tests that read them."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "stoker"


def modules(folder: Path = PACKAGE) -> list[Path]:
    """Every Python file under `folder`, in a fixed order."""
    return sorted(folder.rglob("*.py"))


def parsed(path: Path) -> ast.Module:
    """The syntax tree of one Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def shown(path: Path) -> str:
    """The path as people name it: from the project's root."""
    return path.relative_to(ROOT).as_posix()
