"""The results' places in the docs: between two markers for each engine in docs/benchmarks.md."""

from __future__ import annotations

import re
from pathlib import Path

from bench.result import Report, markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


def rewritten(page: str, report: Report) -> str:
    """The page with the results of the report's engine replaced."""
    begin, end = (f"<!-- {report.engine} {word} -->" for word in ("begins", "ends"))
    fresh = f"{begin}\n\n{results(report)}\n{end}"
    text, count = re.subn(f"{begin}.*?{end}", lambda _: fresh, page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(
            f"{PAGE.name} needs exactly one place for results on {report.engine}, not {count}: "
            f"a line {begin} and below it a line {end}"
        )
    return text


def results(report: Report) -> str:
    """Everything a run has found, as Markdown."""
    words = [f"taken on {report.date}", *report.machine.lines(), *report.facts, settings(report)]
    listed = "".join(f"- {fact}\n" for fact in words)
    return "\n".join([listed, *(markdown(table) for table in report.tables())])


def settings(report: Report) -> str:
    """How much was measured, in words."""
    plan = report.plan
    rounds = (
        f"{plan.name} run: {plan.peers.rounds} rounds beside peers, {plan.worker_rounds} where our "
        f"workers drain alone, {plan.rounds} elsewhere"
    )
    if "depth" not in report.results:
        return rounds
    return (
        f"{rounds}; {plan.jobs:,} jobs a turn, {plan.samples} claims at each depth, crowds at work "
        f"for {plan.seconds:g} s"
    )


def write(report: Report) -> None:
    """Rewrite the page in place."""
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")
