"""Settings of queues: whoever changes some of them undoes nothing of what others change."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from stoker.desk import Desk, settings
from stoker.desk.limits import TaskLimits
from stoker.errors import Contended
from stoker.kernel.queue import QueueSettings
from tests.engines import VirtualClock

ROUNDS = 10


def side_by_side(*acts: Callable[[], object]) -> None:
    with ThreadPoolExecutor(len(acts)) as threads:
        for done in [threads.submit(act) for act in acts]:
            done.result()


def test_two_who_change_different_settings_at_once_both_have_their_way(desk: Desk) -> None:
    others = Desk(desk.store)
    for n in range(1, ROUNDS):
        side_by_side(
            partial(desk.control.adjust, "q", capacity=n),
            partial(others.control.adjust, "q", key_capacity=n),
        )
        assert desk.control.adjust("q") == QueueSettings(capacity=n, key_capacity=n)


def test_limits_of_tasks_that_are_declared_at_once_are_all_set(desk: Desk) -> None:
    others = Desk(desk.store)
    for n in range(1, ROUNDS):
        side_by_side(
            partial(desk.limits.ensure, "q", {"resize": TaskLimits(n)}),
            partial(others.limits.ensure, "q", {"crop": TaskLimits(n)}),
            partial(others.control.adjust, "q", capacity=n),
        )
        assert desk.control.adjust("q").tasks == {"resize": n, "crop": n}
        assert desk.control.adjust("q").capacity == n


def test_to_ask_for_settings_makes_no_queue(desk: Desk) -> None:
    assert desk.control.adjust("q") == QueueSettings()
    assert desk.store.survey() == []


def test_who_never_gets_to_it_is_told_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_PATIENCE_SECONDS", 0.01)
    with desk.control.settings.alone(), pytest.raises(Contended, match="try again"):
        Desk(desk.store).control.adjust("q", capacity=1)
    assert desk.control.adjust("q", capacity=2).capacity == 2


def test_whoever_died_over_it_is_waited_for_no_longer_than_its_lock_lasts(
    desk: Desk, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "_PATIENCE_SECONDS", 0.01)
    died, others = desk.control.settings.alone(), Desk(desk.store)
    died.__enter__()
    clock.pass_(9)
    with pytest.raises(Contended):
        others.control.adjust("q", capacity=1)
    clock.pass_(1)
    assert others.control.adjust("q", capacity=2).capacity == 2
