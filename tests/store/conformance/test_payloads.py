"""Payloads are bytes: whatever goes in comes out, however long and however odd."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Format, Job
from stoker.kernel.policy import Policy
from stoker.store import Filter, Store
from tests.store.conformance.acts import Facts, put, running, seen, take, take_all

MEGABYTE = 1_000_000
ODD = {
    "empty": b"",
    "null": b"null",
    "json": b'{"a": [1, 2.5, "\xc3\xa4", null], "b": {"c": false}}',
    "json with spaces": b'{ "a" :1 }\n',
    "not json": b"{broken",
    "NUL": b"\x00",
    "many NULs": b"\x00" * 3000,
    "NUL inside": b"a\x00b",
    "invalid UTF-8": b"\xff\xfe\xc3\x28",
    "every byte": bytes(range(256)) * 20,
    "quotes": b"'; DROP TABLE job; --",
    "newlines": b"line\r\nline\n",
    "number": b"0123",
    "just below": b"x" * 2047,
    "at the edge": b"x" * 2048,
    "just above": b"x" * 2049,
    "big": bytes(range(250)) * 20_000,
}


def seen_everywhere(desk: Desk, job_id: int) -> list[bytes]:
    """The payload by every way of looking at the job."""
    (found,) = desk.store.find(Filter(queue="q"))
    job = take(desk)
    return [found.payload, job.payload, seen(desk, job_id).payload]


@pytest.mark.parametrize("payload", ODD.values(), ids=ODD)
@pytest.mark.parametrize("facts", [{}, {"key": "k"}], ids=["plain", "keyed"])
def test_a_payload_comes_out_as_it_went_in(desk: Desk, payload: bytes, facts: Facts) -> None:
    job_id = put(desk, payload=payload, **facts)
    assert seen_everywhere(desk, job_id) == [payload] * 3


def test_a_payload_of_five_megabytes_comes_out_as_it_went_in(desk: Desk) -> None:
    payload = bytes(range(256)) * (5 * MEGABYTE // 256)
    job_id = put(desk, payload=payload)
    assert take(desk).payload == payload
    assert seen(desk, job_id).payload == payload


@pytest.mark.parametrize("form", Format)
def test_the_format_says_how_the_bytes_are_meant_and_changes_none(desk: Desk, form: Format) -> None:
    job_id = put(desk, payload=b"\xff{", format=form)
    job = seen(desk, job_id)
    assert (job.payload, job.format) == (b"\xff{", form)


def test_small_and_big_payloads_of_one_call_are_not_mixed_up(desk: Desk) -> None:
    payloads = [bytes([65 + number]) * (number * 1000) for number in range(8)]
    desk.intake.enqueue_many([Job("q", payload=payload) for payload in payloads])
    assert [job.payload for job in desk.dispatch.claim(["q"], 10)] == payloads


@pytest.mark.parametrize("facts", [{}, {"key": "k"}], ids=["plain", "keyed"])
def test_a_payload_may_grow_and_shrink_by_edits(desk: Desk, facts: Facts) -> None:
    job_id = put(desk, payload=b"small", **facts)
    for payload in (b"b" * 5000, b"c" * 6000, b"tiny", b"", b"d" * 2049, b"e" * 2048, b"f" * 9000):
        after = desk.control.edit(job_id, {"payload": payload})
        assert after.payload == seen(desk, job_id).payload == payload
    assert take(desk).payload == b"f" * 9000


def test_a_big_payload_stays_through_a_whole_life(desk: Desk, store: Store) -> None:
    payload = b"x" * 10_000
    job_id = put(desk, payload=payload, policy=Policy(repeat="SCHEDULED, +0 HOURS"))
    job = take(desk)
    desk.report.touch(job, progress=0.5)
    desk.report.release(job)
    desk.report.finish(take(desk), b"r")
    assert seen(desk, job_id).payload == payload
    desk.control.cancel(job_id)
    desk.control.revive(job_id)
    assert take(desk).payload == payload


def test_a_worker_may_leave_a_bigger_payload_behind(desk: Desk) -> None:
    job = running(desk, payload=b"small", policy=Policy(repeat="SCHEDULED, +0 HOURS"))
    desk.report.finish(job, payload=b"y" * 4000)
    again = take(desk)
    assert again.payload == b"y" * 4000
    desk.report.release(again, payload=b"small again")
    assert take(desk).payload == b"small again"


def test_the_payload_of_a_job_that_is_gone_is_not_found_by_another(desk: Desk) -> None:
    first = put(desk, payload=b"secret" * 1000)
    desk.control.delete(first)
    put(desk, payload=b"")
    assert take(desk).payload == b""


@pytest.mark.parametrize("result", [None, b"", b"\x00\xff", b"r" * MEGABYTE], ids=range(4))
def test_a_result_is_kept_exactly(desk: Desk, result: bytes | None) -> None:
    job = running(desk)
    desk.report.finish(job, result)
    assert seen(desk, job.id).result == result


def test_payloads_of_equal_bytes_are_different_jobs(desk: Desk) -> None:
    ids = [put(desk, payload=b"same") for _ in range(3)]
    assert take_all(desk) == ids
