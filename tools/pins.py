"""Write `constraints.txt` anew from `pyproject.toml`: `python -m tools.pins`.

The newest versions that fit are taken, for every platform and every supported Python, each with
the hashes of all its files. The resolver comes into a throwaway environment of its own.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "constraints.txt"
RESOLVER = "uv==0.13.7"
HEADER = """\
# Every package that working on Stoker needs, pinned by version and hash. Written by `make pins`.
"""
COMPILE = [
    *("pip", "compile", "pyproject.toml", "--extra", "dev", "--upgrade", "--quiet"),
    *("--universal", "--python-version", "3.11", "--generate-hashes"),
    *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
]


def resolve(workshop: Path) -> str:
    """The pinned packages, found by a resolver installed in `workshop`."""
    venv.create(workshop, with_pip=True)
    python = str(workshop / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-input", RESOLVER], check=True)
    environment = {"UV_SYSTEM_CERTS": "1", **os.environ}
    command = [str(workshop / "bin" / "uv"), *COMPILE, "--python", sys.executable]
    answer = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return answer.stdout


def main() -> None:
    """Rewrite the file and say how many packages it holds."""
    with tempfile.TemporaryDirectory() as folder:
        pins = resolve(Path(folder))
    TARGET.write_text(HEADER + pins)
    count = sum(not line.startswith(" ") for line in pins.splitlines())
    print(f"{TARGET.name}: {count} packages")


if __name__ == "__main__":
    main()
