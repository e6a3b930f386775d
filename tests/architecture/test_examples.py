"""Every example is run by a test."""

from __future__ import annotations

from tests.architecture.tree import ROOT, modules, shown


def test_every_example_is_named_in_a_test() -> None:
    examples = sorted((ROOT / "examples").glob("*.py"))
    tests = "\n".join(path.read_text(encoding="utf-8") for path in modules(ROOT / "tests"))
    assert examples, "there are no examples"
    assert [shown(path) for path in examples if path.name not in tests] == []
