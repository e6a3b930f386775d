"""`stoker check`."""

from __future__ import annotations

import click

from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.show import Ink
from stoker.doors.forms import finding_form
from stoker.errors import StoreCorrupt
from stoker.store.finding import Checkable, Finding, Level

_MARKS = {Level.FINE: "✓", Level.WARNING: "!", Level.PROBLEM: "✗"}


@click.command(
    cls=Command, examples=["stoker check", "stoker check --store sqlite:///jobs.db --json"]
)
@json_option
@opened()
def check(here: Place, *, as_json: bool) -> None:
    """Is the store sound and writable, how durable is it, and what could be lost in a crash?

    It reads the whole store, so it takes a while on a large one; workers go on meanwhile. With a
    problem the exit code is 4; a warning does not change it.
    """
    store = here.desk.store
    found = store.check() if isinstance(store, Checkable) else []
    problems = sum(finding.level is Level.PROBLEM for finding in found)
    if as_json:
        findings = [finding_form(finding) for finding in found]
        show.document({"store": here.shown, "ok": not problems, "findings": findings})
    else:
        show.facts(
            (f"{_MARKS[finding.level]} {finding.subject}", _ink(finding)) for finding in found
        )
    if problems:
        raise StoreCorrupt(f"{here.shown} has {problems} problem{'s' * (problems > 1)}; see above")


def _ink(finding: Finding) -> Ink:
    return Ink(
        finding.text, "" if finding.level is Level.FINE else show.LEVEL_STYLES[finding.level]
    )
