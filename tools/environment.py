"""Make the project's own environment, or find that it is current: `python tools/environment.py`.

Needs nothing but Python with venv and pip. Two steps, because pip can check the hash of a file but
not of a directory: first every package of `constraints.txt`, each verified, then Stoker itself.
"""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

OLDEST = (3, 11)

if sys.version_info < OLDEST:  # before anything below that an older Python cannot run
    sys.exit(
        f"Stoker needs Python {OLDEST[0]}.{OLDEST[1]} or newer, "
        f"but {sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}.\n"
        "Name a newer one: make PYTHON=python3.12 ..."
    )

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "constraints.txt"
QUIETLY = ("--quiet", "--no-input", "--disable-pip-version-check")
INPUTS = (Path(__file__), ROOT / "pyproject.toml", PINS)


def fingerprint(venv: Path) -> str:
    """What the environment was made from; a change in any of it means making it again."""
    parts = [sys.version.encode(), str(venv).encode(), *(path.read_bytes() for path in INPUTS)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def fits(venv: Path) -> bool:
    """Whether `venv` works and has the Python that runs this program."""
    ask = [str(venv / "bin" / "python"), "-c", "import sys; print(sys.version)"]
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, check=False)
    except OSError:
        return False
    return answer.stdout.strip() == sys.version.strip()


def run(*command: str) -> None:
    """Run one step, or stop with its exit status: it has said on the terminal what went wrong."""
    status = subprocess.call(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    if status:
        sys.exit(f"Set-up stopped: {' '.join(command)} ended with status {status}.")


def make(venv: Path) -> None:
    """Create `venv` if need be, and bring its packages to the pinned versions."""
    if venv.exists() and not (venv / "pyvenv.cfg").is_file():
        sys.exit(f"{venv} is not a Python environment: choose another name for it.")
    if not fits(venv):
        print(f"Making {venv.name} with Python {sys.version.split()[0]}", flush=True)
        run(sys.executable, "-m", "venv", "--clear", str(venv))
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", *QUIETLY]
    print(f"Installing the packages of {PINS.name}", flush=True)
    run(*pip, "--require-hashes", "-r", PINS.name)
    print("Installing Stoker, editable", flush=True)
    run(*pip, "--no-deps", "--no-build-isolation", "-e", ".")


def main(name: str = ".venv") -> None:
    """Bring the environment `name` up to date; quick when nothing changed."""
    venv = ROOT / name
    stamp = venv / ".made-from"
    if stamp.is_file() and stamp.read_text() == fingerprint(venv) and fits(venv):
        return
    started = time.monotonic()
    make(venv)
    stamp.write_text(fingerprint(venv))
    print(f"Set-up done in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
