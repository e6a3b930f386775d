"""The page about the command line is the command line as it is."""

from __future__ import annotations

import pytest

from tests.architecture.tree import ROOT
from tools.cli_page import MARK, commands, redrawn

ALL = dict(commands())
PAGE = ROOT / "docs" / "reference" / "cli.md"


def test_the_page_is_as_the_commands_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == redrawn(page), "the commands have changed: run `make pictures`"


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_command_and_every_option_is_on_the_page(name: str) -> None:
    _, _, section = PAGE.read_text(encoding="utf-8").partition(f"\n### {name}\n")
    section = section.partition("\n### ")[0]
    options = [option for parameter in ALL[name].params for option in parameter.opts]
    said = [option for option in options if option.startswith("-")]
    assert section
    assert [option for option in said if f"`{option}" not in section] == []


def test_redrawing_keeps_what_stands_before_the_mark() -> None:
    head = f"# By hand\n\n{MARK}"
    assert redrawn(f"{head}old").startswith(f"{head}\n## Run jobs\n")
    assert redrawn(redrawn(head)) == redrawn(head)
