"""The results' place in the docs: between two markers in docs/benchmarks.md."""

from __future__ import annotations

import re
from pathlib import Path

from bench.result import Report, markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
_BEGIN, _END = "<!-- results begin -->", "<!-- results end -->"
_PLACE = re.compile(f"{_BEGIN}.*?{_END}", re.DOTALL)


def rewritten(page: str, report: Report) -> str:
    """The page with its results replaced."""
    fresh = f"{_BEGIN}\n\n{results(report)}\n{_END}"
    text, count = _PLACE.subn(lambda _: fresh, page)
    if count != 1:
        raise SystemExit(
            f"{PAGE.name} needs exactly one place for results, not {count}: "
            f"a line {_BEGIN} and below it a line {_END}"
        )
    return text


def results(report: Report) -> str:
    """Everything a run has found, as Markdown."""
    facts = [f"taken on {report.date}", *report.machine.lines(), settings(report)]
    listed = "".join(f"- {fact}\n" for fact in facts)
    return "\n".join([listed, *(markdown(table) for table in report.tables())])


def settings(report: Report) -> str:
    """How much was measured, in words."""
    plan = report.plan
    return (
        f"{plan.name} run: {plan.rounds} rounds, {plan.jobs:,} jobs a turn, "
        f"{plan.samples} claims at each depth, crowds at work for {plan.seconds:g} s"
    )


def write(report: Report) -> None:
    """Rewrite the page in place."""
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")
