"""Bytes into lines, lines into messages, and times."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.doors.stdio.log import entry
from stoker.doors.stdio.topics import TOPICS, WORKER_TOPICS, Circumstances, intent_of
from stoker.doors.stdio.wire import Letterhead, Lines, Unreadable, moment, read, stamp
from tests.stdio.bus import worker_id

AROUND = Circumstances("default", 9_000_000, 1_700_000_000_000_000)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
FIELDS = ("uuid", "queue_name", "priority", "progress", "status", "jobs", "started_at", "id")
KNOWN = [
    "default/tick",
    *(f"default/{topic}" for topic in TOPICS),
    *(f"default/job_queue/workers/{worker_id('w')}/{verb}" for verb in WORKER_TOPICS),
]
PAYLOADS = st.dictionaries(st.sampled_from(FIELDS) | st.text(), JSON | st.text(min_size=1))
MESSAGES = st.fixed_dictionaries(
    {"topic": st.sampled_from(KNOWN) | JSON},
    optional={
        "payload": PAYLOADS | JSON,
        "service_uuid": st.text() | JSON,
        "created_at": st.sampled_from(["2023-11-14T22:13:20Z", "2023-11-14"]) | JSON,
    },
)


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30))
def test_lines_are_the_same_however_the_bytes_are_cut(parts: list[bytes], size: int) -> None:
    stream = b"\n".join(parts)
    whole, cut = Lines(), Lines()
    expected = whole.feed(stream) + whole.rest()
    found = [
        line for at in range(0, len(stream), size) for line in cut.feed(stream[at : at + size])
    ]
    assert found + cut.rest() == expected
    *ended, last = stream.split(b"\n")
    assert expected == [line.strip() for line in ended] + ([last.strip()] if last.strip() else [])


def test_a_line_that_is_too_long_is_cut_and_the_next_is_whole() -> None:
    lines = Lines(longest=10)
    found = [line for _ in range(5) for line in lines.feed(b"x" * 7)]
    assert found == []
    assert lines.feed(b"\n12345\n") == [b"x" * 10, b"12345"]


@given(st.binary())
def test_any_bytes_are_a_message_or_unreadable(line: bytes) -> None:
    with suppress(Unreadable):
        intent_of(read(line), AROUND)


@given(MESSAGES)
def test_any_json_is_understood_or_unreadable(message: dict[str, object]) -> None:
    with suppress(Unreadable):
        intent_of(read(json.dumps(message).encode()), AROUND)
        assert message["topic"] in KNOWN


@given(st.integers(0, 4_000_000_000_000_000))
def test_a_time_is_read_as_it_was_written(at: int) -> None:
    assert moment(stamp(at), "x") == at
    assert datetime.fromisoformat(stamp(at)) == datetime.fromtimestamp(at // 10**6, UTC).replace(
        microsecond=at % 10**6
    )


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T00:00:01.5", 1_500_000),
        ("1970-01-01T00:00:01.123456789Z", 1_123_456),
        ("1970-01-01T01:00:01+01:00", 1_000_000),
        ("1970-01-01T00:00:01.000Z", 1_000_000),
    ],
)
def test_times_are_understood_in_the_forms_in_which_they_come(text: str, at: int) -> None:
    assert moment(text, "created_at") == at


@given(st.text(), st.text(), st.text(), st.text())
def test_a_message_out_is_one_line_of_json(space: str, name: str, host: str, topic: str) -> None:
    line = Letterhead(space, "u", name, host).line(topic, b'{"a": 1}', 0)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    message = json.loads(line)
    assert message == {
        "topic": f"{space}/{topic}",
        "service_uuid": "u",
        "service_name": name,
        "service_host": host,
        "created_at": "1970-01-01T00:00:00.000000Z",
        "payload": {"a": 1},
    }


@given(st.text(st.characters(exclude_categories=())))
def test_an_entry_of_the_log_is_one_line_of_json_whatever_it_says(text: str) -> None:
    line = entry("ERROR", text, 0)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    told = json.loads(line)
    assert told["log_level"] == "error"
    assert told["created_at"] == "1970-01-01T00:00:00.000000Z"
    assert told["log_message"] == text.encode("utf-8", "replace").decode()
