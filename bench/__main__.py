"""The command: choose what to measure and how much, see it, and keep it if asked."""

from __future__ import annotations

import argparse
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import msgspec

from bench import page
from bench.benches import bench, names
from bench.engines import ENGINES
from bench.engines.engine import Engine
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
        description="Measure Stoker beside the leanest loop an engine allows, and beside peers.",
        epilog="; ".join(f"On {name}: {', '.join(names(name))}" for name in ENGINES)
        + ". Without names all are run.",
    )
    asked.add_argument("names", nargs="*", metavar="name", help="only these benchmarks")
    asked.add_argument(
        "--engine",
        choices=list(ENGINES),
        default="sqlite",
        help="where jobs are kept; servers are started and ended by the bench",
    )
    size = asked.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes: two or three minutes")
    size.add_argument("--full", action="store_true", help="queues as deep as five million jobs")
    asked.add_argument("--rounds", type=_positive, help="turns of each contestant in a race")
    asked.add_argument("--depth", type=_positive, help="the deepest queue to claim from on SQLite")
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
    chosen = asked.names or names(asked.engine)
    report = measure(asked.engine, chosen, chosen_plan(asked), asked.dir, shelf)
    if asked.json:
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    if asked.write:
        page.write(report)


def _check(asked: argparse.Namespace) -> None:
    known = names(asked.engine)
    unknown = [name for name in asked.names if name not in known]
    if unknown:
        parser().error(
            f"no benchmark of {asked.engine} is called {unknown[0]!r}; there are {', '.join(known)}"
        )
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
        peers = msgspec.structs.replace(plan.peers, rounds=asked.rounds)
        rounds = {"rounds": asked.rounds, "worker_rounds": asked.rounds, "peers": peers}
        plan = msgspec.structs.replace(plan, **rounds)
    return plan


def measure(
    engine: str, chosen: Sequence[str], plan: Plan, parent: Path, shelf: Path | None = None
) -> Report:
    """Run the benchmarks one after another and show what each has found."""
    machine = look_around(parent)
    with _folder(parent) as folder, ENGINES[engine](folder) as running:
        facts = running.facts()
        print("\n".join([*machine.lines(), *facts]), end="\n\n", flush=True)
        if machine.filesystem in _NO_DISK:
            print("This is no disk: nothing is ever synced, durability means nothing. Use --dir.\n")
        results = {name: _run(name, running, plan, parent, shelf) for name in chosen}
    today = datetime.now(UTC).date().isoformat()
    report = Report(today, engine, machine, facts, plan, results)
    for table in report.verdict():
        show(table)
    return report


def _run(name: str, engine: Engine, plan: Plan, parent: Path, shelf: Path | None) -> Result:
    # A folder for each, so that one's gigabytes do not stand in another's way.
    with _folder(parent) as folder:
        result = bench(name, engine)(Setup(plan, folder, progress(), shelf))
    for table in result.tables:
        show(table)
    return result


@contextmanager
def _folder(parent: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stoker-bench-", dir=parent) as folder:
        yield Path(folder)


def _leave(number: int, _: FrameType | None) -> None:
    """End as with Ctrl-C: servers and workers must not be left behind."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    main()
