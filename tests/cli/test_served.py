"""Which queues `stoker worker` and `stoker run` serve, and when they doubt what they were told."""

from __future__ import annotations

import pytest

from stoker import Stoker
from stoker.doors.cli.worker import served
from stoker.errors import BadInput


@pytest.fixture
def shop() -> Stoker:
    app = Stoker("memory:")
    app.task(name="welcome", queue="mail")(lambda: None)
    app.task(name="month", queue="report-month")(lambda: None)
    return app


@pytest.mark.parametrize(
    ("said", "queues"),
    [
        (None, ("mail", "report-month")),
        ("mail", ("mail",)),
        ("mail,", ("mail",)),
        ("urgent, mail", ("urgent", "mail")),
        ("report-*", ("report-*",)),
    ],
)
def test_queues_for_which_there_are_tasks_raise_no_doubt(
    shop: Stoker, capsys: pytest.CaptureFixture[str], said: str | None, queues: tuple[str, ...]
) -> None:
    assert served(shop, "shop:app", said) == queues
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("said", ["", " , "])
def test_no_queue_at_all_does_not_stand_for_all(shop: Stoker, said: str) -> None:
    with pytest.raises(BadInput, match="--queues names no queue; leave it out"):
        served(shop, "shop:app", said)


def test_queues_for_which_there_is_no_task_are_doubted(
    shop: Stoker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert served(shop, "shop:app", "nail,file-*") == ("nail", "file-*")
    assert capsys.readouterr().err == (
        "stoker: warning: no task of shop:app is for nail, file-*; theirs: mail, report-month\n"
    )


def test_an_app_without_tasks_is_doubted(capsys: pytest.CaptureFixture[str]) -> None:
    assert served(Stoker("memory:"), "shop:app", None) == ("default",)
    assert capsys.readouterr().err == (
        "stoker: warning: shop:app has no tasks; import the modules that have them beside it\n"
    )
