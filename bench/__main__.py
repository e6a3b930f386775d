"""The command: choose what to measure and how much, see it, and keep it if asked."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import page
from bench.benches import BENCHES
from bench.machine import look_around
from bench.plan import DEFAULT, FULL, QUICK, Plan, Setup, down_to
from bench.result import Report, Result
from bench.show import progress, show

_SHELF = "stoker-bench-peers"
_NO_DISK = ("tmpfs", "ramfs")


def parser() -> argparse.ArgumentParser:
    """What may be asked for."""
    asked = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Stoker beside the leanest loop SQLite allows, and beside its peers.",
        epilog=f"Benchmarks: {', '.join(BENCHES)}. Without names all are run.",
    )
    asked.add_argument("names", nargs="*", metavar="name", help="only these benchmarks")
    size = asked.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes: a minute, not several")
    size.add_argument("--full", action="store_true", help="queues as deep as five million jobs")
    asked.add_argument("--rounds", type=_positive, help="turns of each contestant in a race")
    asked.add_argument("--depth", type=_positive, help="the deepest queue to claim from")
    asked.add_argument(
        "--dir",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="where the databases are made and removed; the system's temporary folder by default",
    )
    asked.add_argument(
        "--no-peers",
        action="store_true",
        help=f"fetch no other job queues; otherwise they are kept in {_SHELF} under --dir",
    )
    asked.add_argument("--json", type=Path, metavar="FILE", help="keep the figures in a file")
    asked.add_argument(
        "--write", action="store_true", help="put the figures of a whole run on the docs' page"
    )
    return asked


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("give a number of at least 1")
    return number


def main(words: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    asked = parser().parse_args(words)
    _check(asked)
    shelf = None if asked.no_peers else asked.dir / _SHELF
    report = measure(list(asked.names or BENCHES), chosen_plan(asked), asked.dir, shelf)
    if asked.json:
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    if asked.write:
        page.write(report)


def _check(asked: argparse.Namespace) -> None:
    unknown = [name for name in asked.names if name not in BENCHES]
    if unknown:
        parser().error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHES)}")
    if asked.write and asked.names:
        parser().error("--write takes a whole run, so that the page shows one; leave out names")
    if not asked.dir.is_dir():
        parser().error(f"{asked.dir} is no folder; --dir needs one that is there")


def chosen_plan(asked: argparse.Namespace) -> Plan:
    """The sizes that were asked for."""
    plan = QUICK if asked.quick else FULL if asked.full else DEFAULT
    if asked.depth:
        plan = down_to(plan, asked.depth)
    if asked.rounds:
        plan = msgspec.structs.replace(plan, rounds=asked.rounds)
    return plan


def measure(names: Sequence[str], plan: Plan, parent: Path, shelf: Path | None = None) -> Report:
    """Run the benchmarks one after another and show what each has found."""
    machine = look_around(parent)
    print("\n".join(machine.lines()), end="\n\n", flush=True)
    if machine.filesystem in _NO_DISK:
        print("This is no disk: nothing is ever synced, and FULL means nothing. Use --dir.\n")
    results = {name: _run(name, plan, parent, shelf) for name in names}
    report = Report(datetime.now(UTC).date().isoformat(), machine, plan, results)
    for table in report.verdict():
        show(table)
    return report


def _run(name: str, plan: Plan, parent: Path, shelf: Path | None) -> Result:
    # A folder for each, so that one's gigabytes do not stand in another's way.
    with tempfile.TemporaryDirectory(prefix="stoker-bench-", dir=parent) as folder:
        result = BENCHES[name](Setup(plan, Path(folder), progress(), shelf))
    for table in result.tables:
        show(table)
    return result


if __name__ == "__main__":
    main()
