"""No file names a machine, a package host, or work left undone."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, shown

# Written so that this file does not say the words it looks for.
FOLDERS = ("work", "root", "home", "Users", "tmp", "opt", "mnt")
HOSTS = tuple(
    ".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"))
)
UNDONE = tuple(word.replace("-", "") for word in ("TO-DO", "FIX-ME", "X-XX"))
UNWANTED = re.compile(
    rf"(?<![\w.-])/(?:{'|'.join(FOLDERS)})/"
    rf"|{'|'.join(map(re.escape, HOSTS))}"
    rf"|\b(?:{'|'.join(UNDONE)})\b"
)


def project_files() -> list[Path]:
    """Everything that is, or could be, committed."""
    if not (ROOT / ".git").exists():
        pytest.skip("which files belong to the project is only known in a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def unwanted(text: str) -> Iterator[str]:
    """Each line that says what no file of ours should say, with its number."""
    for number, line in enumerate(text.splitlines(), start=1):
        if UNWANTED.search(line):
            yield f"{number}: {line.strip()}"


def test_no_file_has_leftovers() -> None:
    files = project_files()
    assert Path(__file__) in files
    found = [
        f"{shown(path)}:{line}"
        for path in files
        for line in unwanted(path.read_text(encoding="utf-8", errors="ignore"))
    ]
    assert found == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_scan_notices_a_machine_path(folder: str) -> None:
    assert list(unwanted(f"fine\npath = '/{folder}/x'")) == [f"2: path = '/{folder}/x'"]


@pytest.mark.parametrize("word", [*HOSTS, *UNDONE])
def test_the_scan_notices_a_host_or_undone_work(word: str) -> None:
    assert list(unwanted(f"see {word}: x")) == [f"1: see {word}: x"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_scan_allows_ordinary_words_and_urls(folder: str) -> None:
    text = f"GET /jobs/7/{folder}/1, tests/{folder}/page.py, ../{folder}/x, METHODOLOGY"
    assert list(unwanted(text)) == []
