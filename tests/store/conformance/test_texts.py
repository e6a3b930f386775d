"""Names with half a character or nothing in them: refused in words, on every engine alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.desk import Desk
from stoker.errors import BadInput
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import Rate
from stoker.store import Filter

HALF = "ann \ud800"

USES: dict[str, Callable[[Desk, str], object]] = {
    "a reply": lambda desk, name: desk.control.reply(name, b"1"),
    "a queue": lambda desk, name: desk.control.configure(name, QueueSettings(capacity=1)),
    "a key's limit": lambda desk, name: desk.control.adjust("mail", keys={name: 1}),
    "a key's rate": lambda desk, name: desk.control.adjust("mail", key_rates={name: Rate(1, 1000)}),
    "a key's turns": lambda desk, name: desk.control.adjust("mail", turns={name: 2}),
    "an outer queue": lambda desk, name: desk.control.adjust("mail", within=name),
    "a job": lambda desk, name: desk.intake.enqueue(Job(name)),
    "a job's key": lambda desk, name: desk.intake.enqueue(Job("mail", key=name)),
    "a job's unique key": lambda desk, name: desk.intake.enqueue(Job("mail", unique_key=name)),
    "a job's reference": lambda desk, name: desk.intake.enqueue(Job("mail", ref=name)),
    "a share": lambda desk, name: desk.control.adjust("mail", capacity=1, shares={name: 1}),
    "a claim": lambda desk, name: desk.dispatch.claim([name]),
    "a search": lambda desk, name: desk.store.find(Filter(key=name)),
}


def test_half_a_character_in_the_name_of_a_task_is_refused(desk: Desk) -> None:
    for limits in ({"tasks": {HALF: 1}}, {"task_rates": {HALF: Rate(1, 1000)}}):
        with pytest.raises(BadInput, match="holds half a character"):
            desk.control.adjust("mail", **limits)


def test_jobs_without_a_name_can_be_limited(desk: Desk) -> None:
    desk.control.adjust("mail", tasks={"": 1})
    for name in ("", "", "letter"):
        desk.intake.enqueue(Job("mail", name))
    assert [job.name for job in desk.dispatch.claim(["mail"], 9)] == ["", "letter"]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_half_a_character_is_refused(desk: Desk, use: Callable[[Desk, str], object]) -> None:
    with pytest.raises(BadInput, match=r"holds half a character \(a lone surrogate\)"):
        use(desk, HALF)
    assert desk.store.survey() == []


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_an_empty_name_is_refused(desk: Desk, use: Callable[[Desk, str], object]) -> None:
    with pytest.raises(BadInput, match="cannot be empty; give a text, or leave it out altogether"):
        use(desk, "")
    assert desk.store.survey() == []


def test_whole_characters_of_any_kind_are_fine(desk: Desk) -> None:
    desk.control.adjust("größe 🙂", keys={"žen": 1})
    assert [view.name for view in desk.store.survey()] == ["größe 🙂"]
    assert desk.control.reply("é", b"1").value == "kept"
