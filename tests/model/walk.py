"""The seeded walk as a program: `python -m tests.model.walk ENGINE SEEDS STEPS [LIVES]`. Seeds are
numbers, one after the other with commas between them, or a range like 0-99.

Exits with 1 and names the seed when an engine disagrees with the reference.
"""

from __future__ import annotations

import sys
from collections import Counter

from stoker.store import Store
from stoker.store.memory import MemoryStore
from stoker.store.postgres import PostgresStore
from stoker.store.redis import RedisStore
from stoker.store.sqlite import SqliteStore
from tests.engines import ENGINES_AND_LIBRARIES, VirtualClock
from tests.model import postgres_books, redis_books, sqlite_books
from tests.model.flocks import FlockLives
from tests.model.keyed import CrowdedLives, EvenLives, KeyedLives
from tests.model.limited import LimitedLives
from tests.model.lives import Lives, SeededChooser
from tests.model.tenants import TenantLives

LIVES: dict[str, type[Lives]] = {
    "any": Lives,
    "keyed": KeyedLives,
    "even": EvenLives,
    "crowded": CrowdedLives,
    "tenants": TenantLives,
    "flocks": FlockLives,
    "limited": LimitedLives,
}
_RECOUNT_EVERY = 25


def walk(engine: str, seed: int, steps: int, kind: str = "any") -> Counter[str]:
    """One life story; returns how often what happened in it."""
    clock = VirtualClock()
    with ENGINES_AND_LIBRARIES[engine](clock) as store:
        lives = LIVES[kind](SeededChooser(seed), clock, MemoryStore(clock), store)
        for step in range(1, steps + 1):
            lives.step()
            if step % _RECOUNT_EVERY == 0:
                recount(store)
                lives.compare_lines()
        return lives.seen


def recount(store: Store) -> None:
    """What an engine keeps besides the jobs must follow from the jobs."""
    if isinstance(store, SqliteStore):
        sqlite_books.assert_books_balance(store.path, store.file.library)
    elif isinstance(store, PostgresStore):
        postgres_books.assert_books_balance(store)
    elif isinstance(store, RedisStore):
        redis_books.assert_books_balance(store)


def main(engine: str, seeds: str, steps: str, kind: str = "any") -> int:
    first, is_range, last = seeds.partition("-")
    wanted = range(int(first), int(last) + 1) if is_range else map(int, seeds.split(","))
    for seed in wanted:
        try:
            walk(engine, seed, int(steps), kind)
        except Exception as error:  # noqa: BLE001 - whatever it is, it names the seed
            print(f"seed {seed}: {type(error).__name__} {str(error)[:200]}")
            return 1
    print(f"{seeds}: all agree")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
