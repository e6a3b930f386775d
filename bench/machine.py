"""Where the figures were taken: versions, processor, file system and the price of a sync."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from pathlib import Path

import msgspec

import stoker
from bench.stopwatch import percentile

_PROCESSOR = Path("/proc/cpuinfo")
_MOUNTS = Path("/proc/mounts")
_BLOCK = 4096


class Machine(msgspec.Struct, frozen=True):
    """What a reader must know to compare."""

    stoker: str
    python: str
    system: str
    processor: str
    cores: int
    filesystem: str
    sync_p50_us: float
    """The price of one fdatasync after writing a block, in microseconds."""
    sync_p99_us: float

    def lines(self) -> list[str]:
        """The facts in words."""
        sync = f"p50 {self.sync_p50_us:,.0f} µs, p99 {self.sync_p99_us:,.0f} µs"
        return [
            f"Stoker {self.stoker}, Python {self.python}",
            f"{self.system}, {self.cores} cores of {self.processor}",
            f"databases on {self.filesystem}; fdatasync of {_BLOCK} bytes: {sync}",
        ]


def look_around(folder: Path, syncs: int = 200) -> Machine:
    """The machine as it is now, and the disk of the folder."""
    times = _sync_times(folder, syncs)
    return Machine(
        stoker=stoker.__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count() or 1,
        filesystem=filesystem(folder),
        sync_p50_us=percentile(times, 50),
        sync_p99_us=percentile(times, 99),
    )


def filesystem(folder: Path) -> str:
    """The type of the file system that holds a folder, as far as the system tells."""
    if not _MOUNTS.exists():
        return "an unknown file system"
    there = folder.resolve()
    mounts = (line.split() for line in _MOUNTS.read_text(encoding="utf-8").splitlines())
    above = [(mount[1], mount[2]) for mount in mounts if there.is_relative_to(mount[1])]
    return max(above, key=lambda mount: len(mount[0]), default=("", "an unknown file system"))[1]


def _processor() -> str:
    if _PROCESSOR.exists():
        for line in _PROCESSOR.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "an unknown processor"


def _sync_times(folder: Path, count: int) -> list[float]:
    sync = getattr(os, "fdatasync", os.fsync)
    with tempfile.TemporaryFile(dir=folder) as file:
        times = []
        for _ in range(count):
            start = time.perf_counter_ns()
            os.pwrite(file.fileno(), b"x" * _BLOCK, 0)
            sync(file.fileno())
            times.append((time.perf_counter_ns() - start) / 1e3)
    return times
