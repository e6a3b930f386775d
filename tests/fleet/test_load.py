"""Finding the app by its name, and saying what is wrong with the name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from stoker.errors import BadInput
from stoker.fleet.load import load_app

ONE = "from stoker import Stoker\napp = Stoker('memory:')\n"
MODULES = {
    "fleet_one": ONE,
    "fleet_two": ONE + "other = Stoker('memory:')\n",
    "fleet_none": "app = 'not an app'\n",
    "fleet_broken": "import fleet_that_is_not_there\n",
    "fleet_faulty": "1 / 0\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with modules; what is imported from it is forgotten afterwards."""
    for name, source in MODULES.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    importlib.invalidate_caches()
    return tmp_path


def test_an_app_is_found_by_module_and_name() -> None:
    assert load_app("fleet_two:other") is sys.modules["fleet_two"].other


def test_the_only_app_of_a_module_needs_no_name() -> None:
    assert load_app("fleet_one") is sys.modules["fleet_one"].app


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        (":app", "':app' names no module; write module:app, e.g. tasks:app"),
        ("fleet_two", "fleet_two has 2 apps; say which; it has app, other"),
        ("fleet_two:third", "fleet_two has no Stoker called 'third'; it has app, other"),
        (
            "fleet_none:app",
            "fleet_none has no Stoker called 'app'; make one: app = Stoker('sqlite:///jobs.db')",
        ),
        (
            "fleet_none",
            "fleet_none has no app; make one: app = Stoker('sqlite:///jobs.db')",
        ),
    ],
)
def test_a_name_that_leads_to_no_app_is_refused(reference: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        load_app(reference)
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("fleet_one.py:app", "fleet_one:app"),
        ("fleet_one.py", "fleet_one"),
        ("shop/tasks.py:app", "shop.tasks:app"),
        ("flete_two:other", "fleet_two:other"),
    ],
)
def test_a_name_that_is_nearly_right_is_put_right(reference: str, meant: str) -> None:
    with pytest.raises(BadInput, match=rf"; did you mean {meant}\?$"):
        load_app(reference)


@pytest.mark.parametrize("module", ["gone", "gone.deeper"])
def test_a_module_that_is_not_there_is_refused_with_the_place_searched(
    folder: Path, module: str
) -> None:
    with pytest.raises(BadInput) as refused:
        load_app(f"{module}:app")
    assert str(refused.value) == f"there is no module {module!r} in {folder} or on sys.path"


def test_a_module_that_misses_another_one_fails_with_its_own_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="fleet_that_is_not_there"):
        load_app("fleet_broken:app")


def test_a_module_that_fails_while_it_is_imported_fails_with_its_own_error() -> None:
    with pytest.raises(ZeroDivisionError):
        load_app("fleet_faulty:app")
