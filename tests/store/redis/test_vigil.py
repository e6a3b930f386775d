"""Answers that are near are waited for awake, others asleep; both come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.desk import Desk
from stoker.store import Filter
from stoker.store.redis import RedisStore
from stoker.store.redis.connection import Line, connect, packed
from stoker.store.redis.options import read_options
from stoker.store.redis.vigil import Vigil
from tests.servers.valkey import Server
from tests.store.conformance.acts import put

HELLO = packed("ECHO", "hello")
LATE = packed("BLPOP", "nothing ever comes here", "0.05")


@pytest.fixture
def line(server: Server, prefix: str) -> Iterator[Line]:
    options = read_options(server.url(prefix))
    line = connect(options, options.addresses[0])
    line.connect()
    line._vigil = Vigil(possible=True)  # also where there is one processor only
    yield line
    line.disconnect()


@pytest.fixture
def vigils(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each was worth it."""
    kept: list[bool] = []
    wait = Line._is_answered_at_once

    def noted(line: Line) -> bool:
        kept.append(wait(line))
        return kept[-1]

    monkeypatch.setattr(Line, "_is_answered_at_once", noted)
    return kept


def test_nobody_stays_awake_unasked(line: Line, vigils: list[bool]) -> None:
    assert line.exchange(HELLO) == b"hello"
    assert vigils == []


def test_what_comes_late_is_waited_for_asleep(line: Line, vigils: list[bool]) -> None:
    assert line.exchange(LATE, awake=True) is None
    assert vigils == [False]
    assert line.exchange(HELLO, awake=True) == b"hello"
    assert vigils == [False]  # it is left off once


def test_as_long_as_answers_are_late_it_is_tried_ever_more_seldom(
    line: Line, vigils: list[bool]
) -> None:
    for _ in range(15):
        assert line.exchange(LATE, awake=True) is None
    assert vigils == [False] * 4  # the first, third, seventh and fifteenth of them


def test_whoever_has_the_only_processor_sleeps(line: Line, vigils: list[bool]) -> None:
    line._vigil = Vigil(possible=False)
    assert line.exchange(HELLO, awake=True) == b"hello"
    assert vigils == []


def test_a_new_job_is_waited_for_awake_and_many_are_not(
    store: RedisStore, vigils: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Vigil, "is_worth_it", lambda _: True)
    desk = Desk(store)
    put(desk)  # the queue comes into being
    before = len(vigils)
    put(desk)
    assert len(vigils) == before + 1
    store.find(Filter())
    desk.dispatch.claim(["q"], 2)
    assert len(vigils) == before + 1
