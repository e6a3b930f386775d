"""Limits declared at a task: they reach its queue once, and then they are the operator's."""

from __future__ import annotations

from typing import Any

import pytest

from stoker import QueueSettings, Rate, Stoker
from stoker.errors import BadInput
from stoker.testing import Harness

TEN_A_SECOND = Rate(10, 1_000_000)


def deploy(stoker: Harness, **options: Any) -> Stoker:
    """An app whose code declares this, at the same desk."""
    app = Stoker("memory:")
    app.sit_at(stoker.app.desk)
    app.task(name="resize", queue="pictures", **options)(lambda: None)
    app.task(name="crop", queue="pictures")(lambda: None)
    return app


def settings(stoker: Harness) -> QueueSettings:
    return stoker.app.configure("pictures")


def test_limits_reach_the_settings_of_the_queue_when_a_worker_is_made(stoker: Harness) -> None:
    stoker.app.configure("pictures", capacity=5, tasks={"crop": 1})
    deploy(stoker, limit=2, rate="10 per second").worker()
    assert settings(stoker) == QueueSettings(
        capacity=5, tasks={"crop": 1, "resize": 2}, task_rates={"resize": TEN_A_SECOND}
    )


def test_what_the_operator_changes_stays_while_the_code_says_the_same(stoker: Harness) -> None:
    assert deploy(stoker, limit=2).ensure_limits() == ["resize"]
    stoker.app.configure("pictures", tasks={"resize": 7})
    assert deploy(stoker, limit=2).ensure_limits() == []
    assert settings(stoker).tasks == {"resize": 7}
    assert deploy(stoker, limit=3).ensure_limits() == ["resize"]
    assert settings(stoker).tasks == {"resize": 3}


def test_a_limit_that_the_code_no_longer_has_is_lifted(stoker: Harness) -> None:
    deploy(stoker, limit=2, rate=TEN_A_SECOND).ensure_limits()
    assert deploy(stoker, rate=TEN_A_SECOND).ensure_limits() == ["resize"]
    assert settings(stoker) == QueueSettings(task_rates={"resize": TEN_A_SECOND})
    assert deploy(stoker).ensure_limits() == ["resize"]
    assert settings(stoker) == QueueSettings()
    assert stoker.app.desk.store.notes() == {}


def test_apps_without_limits_leave_those_of_others_alone(stoker: Harness) -> None:
    stoker.app.configure("pictures", tasks={"resize": 7, "frame": 1})
    assert deploy(stoker).ensure_limits() == []
    assert settings(stoker).tasks == {"resize": 7, "frame": 1}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"limit": 0}, r"tasks\['resize'\] must be more than 0"),
        ({"limit": "two"}, "tasks cannot be set to {'resize': 'two'}"),
        ({"rate": "often"}, "cannot read the rate 'often'"),
    ],
)
def test_limits_that_cannot_be_meant_are_refused_where_they_are_declared(
    options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        Stoker("memory:").task(name="resize", **options)(lambda: None)
