"""Every engine agrees with the memory store after every step of random lives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.store.memory import MemoryStore
from tests.engines import ENGINES, ENGINES_AND_LIBRARIES, VirtualClock
from tests.model.lives import Lives
from tests.model.walk import walk

T = TypeVar("T")
OTHERS = sorted(ENGINES.keys() - {"memory"})

SEEDS, STEPS = 40, 200
FEWER_SEEDS = {
    "postgres": 10,
    "redis-walking": 20,
    "redis-in-short-rows": 12,
    "sqlite-of-python": 12,
}
"""Where a step takes longer, or less has to be proved."""

KEYED_SEEDS = 8
FEWER_KEYED_SEEDS = {"postgres": 4}


def enough(seeds: int) -> dict[str, int]:
    """What so many walks do at least; those that do less prove too little."""
    return {
        "claimed": seeds * STEPS // 12,
        "fenced": seeds * STEPS // 12,
        "recovered": seeds * STEPS // 50,
        "refused": seeds * STEPS // 25,
        "twins": seeds * STEPS // 25,
        "roused": max(1, seeds // 26),
        "swept": 2,
    }


@pytest.mark.parametrize("engine", sorted(ENGINES_AND_LIBRARIES.keys() - {"memory"}))
def test_a_seeded_walk_agrees_with_the_reference_and_does_enough_to_prove_it(engine: str) -> None:
    seen: Counter[str] = Counter()
    seeds = FEWER_SEEDS.get(engine, SEEDS)
    for seed in range(seeds):
        seen += walk(engine, seed, STEPS)
    lacking = {name: seen[name] for name, least in enough(seeds).items() if seen[name] < least}
    assert not lacking, f"of {seen['steps']} steps too few were of interest: {lacking}"


@pytest.mark.parametrize("kind", ["keyed", "even", "crowded", "tenants", "flocks", "limited"])
@pytest.mark.parametrize("engine", sorted(ENGINES_AND_LIBRARIES.keys() - {"memory"}))
def test_a_seeded_walk_of_a_kind_agrees_with_the_reference(engine: str, kind: str) -> None:
    seen: Counter[str] = Counter()
    seeds = FEWER_KEYED_SEEDS.get(engine, KEYED_SEEDS)
    for seed in range(seeds):
        seen += walk(engine, seed, STEPS // 2, kind)
    enough = seeds * STEPS // 12
    assert seen["claimed"] > enough, "too little was claimed to prove anything"


class DrawnChooser:
    """Choices by hypothesis, which looks for the shortest way to a disagreement."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def pick(self, options: Sequence[T]) -> T:
        return self._data.draw(st.sampled_from(options))


@pytest.mark.parametrize("engine", OTHERS)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data(), steps=st.integers(5, 30))
def test_random_lives_agree_with_the_reference(
    engine: str, data: st.DataObject, steps: int
) -> None:
    clock = VirtualClock()
    with ENGINES[engine](clock) as store:
        lives = Lives(DrawnChooser(data), clock, MemoryStore(clock), store)
        for _ in range(steps):
            lives.step()
