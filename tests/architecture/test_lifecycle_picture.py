"""The picture in the docs is the table in the code."""

from __future__ import annotations

from stoker.kernel import lifecycle
from tests.architecture.tree import ROOT
from tools.lifecycle import redrawn

PAGE = ROOT / "docs" / "lifecycle.md"


def test_the_lifecycle_page_shows_the_table_as_it_is() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == redrawn(page), "the table has changed: run `make pictures`"
    assert page.count(lifecycle.picture()) == 1


def test_redrawing_replaces_the_picture_and_nothing_else() -> None:
    old = "# Life\n\n```mermaid\nstateDiagram-v2\n    A --> B\n```\n\nMore.\n\n```python\nx\n```\n"
    expected = f"# Life\n\n{lifecycle.picture()}\nMore.\n\n```python\nx\n```\n"
    assert redrawn(old) == expected
