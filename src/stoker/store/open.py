"""From a URL to a store that works."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from stoker.errors import BadInput
from stoker.store import Store
from stoker.store.memory import MemoryStore


def open_store(url: str) -> Store:
    """The store a URL names.

    >>> open_store("memory:").survey()
    []

    `sqlite:///jobs.db` is a file in the working directory, `sqlite:////var/lib/jobs.db` one
    anywhere. `?sync=normal` trades the last moments before a power cut for speed.
    """
    parts = urlsplit(url)
    opener = _OPENERS.get(parts.scheme)
    if opener is None:
        known = ", ".join(f"{scheme}:" for scheme in _OPENERS)
        raise BadInput(f"no store is called {url!r}; a store's URL begins with one of {known}")
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    path = unquote(parts.path)
    if parts.netloc:
        raise BadInput(
            f"{url!r} names a host, but {parts.scheme}: is on this machine; "
            f"write {parts.scheme}:///{parts.netloc}{path}"
        )
    return opener(url, path, options)


def _open_memory(url: str, path: str, options: dict[str, str]) -> Store:
    if path or options:
        raise BadInput(f"{url!r} says too much: the memory store is just memory:")
    return MemoryStore()


def _open_sqlite(url: str, path: str, options: dict[str, str]) -> Store:
    # Imported here, so that an engine's driver is needed only by those who use the engine.
    from stoker.store.sqlite import SqliteStore  # noqa: PLC0415
    from stoker.store.sqlite.driver import Sync  # noqa: PLC0415

    file = path[1:] if path.startswith("/") else path
    sync = options.pop("sync", "full")
    if not file or options or sync not in ("full", "normal"):
        raise BadInput(
            f"cannot read {url!r}; write sqlite:///jobs.db, with ?sync=full or ?sync=normal "
            "behind it if you like"
        )
    return SqliteStore(file, sync=Sync(sync))


_OPENERS = {"memory": _open_memory, "sqlite": _open_sqlite}
