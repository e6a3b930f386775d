"""Names with half a character in them: refused in words, on every engine alike."""

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

USES: dict[str, Callable[[Desk], object]] = {
    "a reply": lambda desk: desk.control.reply(HALF, b"1"),
    "a queue": lambda desk: desk.control.configure(HALF, QueueSettings(capacity=1)),
    "a key's limit": lambda desk: desk.control.adjust("mail", keys={HALF: 1}),
    "a task's limit": lambda desk: desk.control.adjust("mail", tasks={HALF: 1}),
    "a key's rate": lambda desk: desk.control.adjust("mail", key_rates={HALF: Rate(1, 1000)}),
    "a key's turns": lambda desk: desk.control.adjust("mail", turns={HALF: 2}),
    "an outer queue": lambda desk: desk.control.adjust("mail", within=HALF),
    "a job": lambda desk: desk.intake.enqueue(Job(HALF)),
    "a search": lambda desk: desk.store.find(Filter(key=HALF)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_half_a_character_is_refused(desk: Desk, use: Callable[[Desk], object]) -> None:
    with pytest.raises(BadInput, match=r"holds half a character \(a lone surrogate\)"):
        use(desk)
    assert desk.store.survey() == []


def test_whole_characters_of_any_kind_are_fine(desk: Desk) -> None:
    desk.control.adjust("größe 🙂", keys={"žen": 1})
    assert [view.name for view in desk.store.survey()] == ["größe 🙂"]
    assert desk.control.reply("é", b"1").value == "kept"
