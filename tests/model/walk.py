"""The seeded walk as a program: `python -m tests.model.walk ENGINE FIRST_SEED SEEDS STEPS`.

Exits with 1 and names the seed when an engine disagrees with the reference.
"""

from __future__ import annotations

import sys
from collections import Counter

from stoker.store.memory import MemoryStore
from stoker.store.sqlite import SqliteStore
from tests.engines import ENGINES, VirtualClock
from tests.model.lives import Lives, SeededChooser
from tests.model.sqlite_books import assert_books_balance

_RECOUNT_EVERY = 25


def walk(engine: str, seed: int, steps: int) -> Counter[str]:
    """One life story; returns how often what happened in it."""
    clock = VirtualClock()
    with ENGINES[engine](clock) as store:
        lives = Lives(SeededChooser(seed), clock, MemoryStore(clock), store)
        for step in range(1, steps + 1):
            lives.step()
            if isinstance(store, SqliteStore) and step % _RECOUNT_EVERY == 0:
                assert_books_balance(store.path)
        return lives.seen


def main(engine: str, first: str, seeds: str, steps: str) -> int:
    for seed in range(int(first), int(first) + int(seeds)):
        try:
            walk(engine, seed, int(steps))
        except Exception as error:  # noqa: BLE001 - whatever it is, it names the seed
            print(f"seed {seed}: {type(error).__name__} {str(error)[:200]}")
            return 1
    print(f"{seeds} seeds agree")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
