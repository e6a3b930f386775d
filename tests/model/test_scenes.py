"""Scenes that random lives seldom come upon end on every engine as they do on the reference."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.store.memory import MemoryStore
from tests.engines import ENGINES_AND_LIBRARIES, VirtualClock
from tests.mutants.scenes import SCENES, Scene


@pytest.mark.parametrize("engine", sorted(ENGINES_AND_LIBRARIES.keys() - {"memory"}))
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_it_ends_as_on_the_reference(engine: str, scene: Scene) -> None:
    clock, other = VirtualClock(), VirtualClock()
    with ENGINES_AND_LIBRARIES[engine](other) as store:
        assert scene(Desk(store), other) == scene(Desk(MemoryStore(clock)), clock)
