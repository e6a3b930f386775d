"""Every relative link in the pages leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, shown

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)|^\[[^\]^]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+?)\s*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def anchors(page: Path) -> set[str]:
    """The names under which the headings of a page can be linked to."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    kept = (re.sub(r"[^\w\- ]", "", heading) for heading in HEADING.findall(text))
    return {heading.strip().lower().replace(" ", "-") for heading in kept}


def leads_somewhere(page: Path, target: str) -> bool:
    """Whether a link on `page` finds its file and, in a page, its heading."""
    path, _, anchor = target.partition("#")
    found = (page.parent / path) if path else page
    if anchor and found.suffix == ".md":
        return found.is_file() and anchor in anchors(found)
    return found.exists()


def broken_links(page: Path) -> Iterator[str]:
    """The relative links of a page that find nothing."""
    for match in LINK.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
        target = match[1] or match[2]
        if not ELSEWHERE.match(target) and not leads_somewhere(page, target):
            yield target


def test_there_is_a_readme_to_look_at() -> None:
    assert ROOT / "README.md" in PAGES


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_relative_link_resolves(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_the_scan_notices_a_broken_link_and_follows_a_good_one(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# What it *is*\n```\n# no heading\n```\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](there.md) [b](there.md#what-it-is) [c](#here) [d](https://example.org/x)\n"
        "`[e](code.md)`\n```\n[f](code.md)\n```\n"
        "[g](gone.md) ![h](gone.png) [i](there.md#no-heading) [j](#nowhere)\n\n[k]: gone.txt\n",
        encoding="utf-8",
    )
    expected = ["gone.md", "gone.png", "there.md#no-heading", "#nowhere", "gone.txt"]
    assert list(broken_links(page)) == expected
