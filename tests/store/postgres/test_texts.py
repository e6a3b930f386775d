"""Texts with characters that PostgreSQL does not know come out as they went in."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Awaits
from stoker.kernel.queue import QueueSettings
from stoker.kernel.retry import Failure
from stoker.store import Filter
from stoker.store.postgres import PostgresStore
from stoker.store.postgres.texts import read, written
from tests.store.sqlite.busy_day import desk_at

ODD = ["\0", "a\0b", "\1", "\x010", "\0\1\0", "☃\0", "0\x01\x011"]


@pytest.mark.parametrize("text", ODD)
def test_what_is_written_can_be_read(text: str) -> None:
    assert read(written(text)) == text
    assert "\0" not in written(text)


def test_a_job_may_have_them_in_every_text(store: PostgresStore) -> None:
    desk, odd = desk_at(store), "a\0b\1"
    desk.control.configure(odd, QueueSettings(keys={odd: 1.0}))
    facts: dict[str, Any] = {"key": odd, "unique_key": odd, "ref": odd}
    placed = desk.intake.enqueue(Job(odd, odd, meta=odd, **facts))
    (job,) = desk.dispatch.claim([odd])
    assert (job.queue, job.name, job.meta) == (odd, odd, odd)
    assert {name: getattr(job, name) for name in facts} == facts
    assert store.find(Filter(queue=odd, name=odd, **facts)) == [job]
    assert [view.name for view in store.survey([odd])] == [odd]
    waiting = desk.report.wait(job, Awaits(odd))
    assert store.find(Filter(waits_for=waiting.waits_for)) == [waiting]
    desk.control.reply(odd, b"1")
    (job,) = desk.dispatch.claim([odd])
    failed = desk.report.fail(job, Failure(("tests.Odd",), odd))
    assert failed.error == store.get([placed.id])[placed.id].error == odd
    assert failed.state is State.FAILED


def test_workers_and_locks_may_have_them_too(store: PostgresStore) -> None:
    Desk(store).dispatch.open_session("a\0b", "c\0d", ttl=10**9)
    assert [(each.name, each.info) for each in store.sessions()] == [("a\0b", "c\0d")]
    assert store.hold("x\0", "me\0", 10**9)
    assert not store.hold("x\0", "you\0", 10**9)
