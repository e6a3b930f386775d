"""Finding the user's app by its name."""

from __future__ import annotations

import importlib
import sys
from difflib import get_close_matches
from pathlib import Path

from stoker.client import Stoker
from stoker.errors import BadInput


def load_app(reference: str) -> Stoker:
    """The app called `module:name`; the working directory is searched too."""
    module_name, _, attribute = reference.partition(":")
    if not module_name:
        raise BadInput(f"{reference!r} names no module; write module:app, e.g. tasks:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there; something it imports is not
        advice = _meant(module_name, attribute)
        raise BadInput(
            f"there is no module {module_name!r} in {here} or on sys.path{advice}"
        ) from error
    if attribute:
        app = getattr(module, attribute, None)
        if not isinstance(app, Stoker):
            raise BadInput(f"{module_name} has no Stoker called {attribute!r}{_hint(module)}")
        return app
    apps = _apps(module)
    if len(apps) != 1:
        which = f"{len(apps)} apps; say which" if apps else "no app"
        raise BadInput(f"{module_name} has {which}{_hint(module)}")
    return next(iter(apps.values()))


def _meant(module_name: str, attribute: str) -> str:
    """What was perhaps meant: no file but its module, or a module with a like name."""
    bare = module_name.removesuffix(".py").replace("/", ".")
    nearby = sorted(path.stem for path in Path.cwd().glob("*.py"))
    alike = [bare] if bare != module_name else get_close_matches(module_name, nearby, n=1)
    return f"; did you mean {':'.join(filter(None, (alike[0], attribute)))}?" if alike else ""


def _apps(module: object) -> dict[str, Stoker]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Stoker)}


def _hint(module: object) -> str:
    names = ", ".join(_apps(module))
    return f"; it has {names}" if names else "; make one: app = Stoker('sqlite:///jobs.db')"
