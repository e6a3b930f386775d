"""Installing the peers, each in a folder of its own that is kept for the next run."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers.cast import Peer

_PATIENCE = 900.0
_COMPLETE = "complete"
_ADDRESS = re.compile(r"( - GET)? https?://\S+")
"""Where a package was looked for is a matter of the machine."""


def fetch(peer: Peer, shelf: Path) -> str | None:
    """Install a peer unless it is there; returns what stood in the way, if anything did."""
    home = peer.home(shelf)
    if (home / _COMPLETE).exists():
        return None
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    try:
        _install(peer, home)
    except (OSError, subprocess.SubprocessError) as error:
        return _reason(error)
    (home / _COMPLETE).touch()
    return None


def runtimes() -> str:
    """What peers run on, with versions."""
    python, node = f"Python {platform.python_version()}", shutil.which("node")
    if node is None:
        return python
    told = subprocess.run(  # noqa: S603 - our own words only
        [node, "--version"], check=False, capture_output=True, text=True, timeout=_PATIENCE
    )
    return f"{python}, or Node {told.stdout.strip().removeprefix('v')}"


def _install(peer: Peer, home: Path) -> None:
    if peer.on_node:
        npm = shutil.which("npm")
        if npm is None:
            raise FileNotFoundError("npm is not installed")
        (home / "package.json").write_text('{"private": true}\n', encoding="ascii")
        _run([npm, "install", "--no-audit", "--no-fund", "--save-exact", *peer.pins], home)
    else:
        _run([sys.executable, "-m", "venv", "."], home)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
        _run([*pip, "--quiet", "--retries", "1", *peer.pins], home)


def _run(command: Sequence[str], folder: Path) -> None:
    subprocess.run(  # noqa: S603 - our own words only
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=_PATIENCE
    )


def _reason(error: OSError | subprocess.SubprocessError) -> str:
    said = (
        (error.stderr or error.stdout) if isinstance(error, subprocess.CalledProcessError) else ""
    )
    lines = [line for line in (said or str(error)).splitlines() if "error" in line.lower()]
    # npm begins with a code, and ends with the place of its log; the longest of the first says it.
    reason = max(lines[:3], key=len, default=str(error)).strip()
    return _ADDRESS.sub("", reason)[:200]
