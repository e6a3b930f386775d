"""When a queue is open: windows and maintenance together."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stoker.errors import BadInput
from stoker.kernel.hours import Maintenance, parse_maintenance
from stoker.kernel.queue import QueueSettings
from stoker.kernel.queue_forms import read_settings
from stoker.kernel.window import parse_windows


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def shown(moment: int | None) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


def queue(**said: object) -> QueueSettings:
    return QueueSettings(**read_settings(said))


@pytest.mark.parametrize(
    ("said", "asked", "opens"),
    [
        ({}, "2027-03-01 12:00", "2027-03-01 12:00"),
        ({"windows": "05:00-07:00"}, "2027-03-01 05:00", "2027-03-01 05:00"),
        ({"windows": "05:00-07:00"}, "2027-03-01 07:00", "2027-03-02 05:00"),
        ({"maintenance": "sun 02:00-04:00"}, "2027-03-07 01:59", "2027-03-07 01:59"),
        ({"maintenance": "sun 02:00-04:00"}, "2027-03-07 02:00", "2027-03-07 04:00"),
        ({"maintenance": "sun 02:00-04:00, drain 30m"}, "2027-03-07 01:29", "2027-03-07 01:29"),
        ({"maintenance": "sun 02:00-04:00, drain 30m"}, "2027-03-07 01:30", "2027-03-07 04:00"),
        # The second begins to drain while the first is on.
        ({"maintenance": "2:00-3:00; 3:30-4:00, drain 1h"}, "2027-03-07 02:10", "2027-03-07 04:00"),
        # It is over when the window has closed.
        (
            {"windows": "05:00-07:00", "maintenance": ["2027-03-07 04:00 to 2027-03-07 08:00"]},
            "2027-03-07 05:30",
            "2027-03-08 05:00",
        ),
        # They exclude one another.
        ({"windows": "05:00-07:00", "maintenance": "04:00-08:00"}, "2027-03-07 12:00", None),
    ],
)
def test_a_queue_opens_when_its_windows_are_open_and_no_maintenance_is_on(
    said: dict[str, object], asked: str, opens: str | None
) -> None:
    assert shown(queue(**said).opens_at(at(asked))) == opens


def test_the_hours_of_the_queue_around_it_count_as_well() -> None:
    inner, outer = queue(windows="05:00-07:00"), queue(maintenance="04:00-06:00")
    assert shown(inner.opens_at(at("2027-03-01 03:00"), outer)) == "2027-03-01 06:00"


def test_maintenance_keeps_to_the_clocks_of_its_zone_when_they_change() -> None:
    spring = parse_maintenance("2027-03-28 01:30 to 2027-03-28 02:30 in Europe/Berlin")
    autumn = parse_maintenance("2027-10-31 02:15 to 2027-10-31 02:45 in Europe/Berlin")
    assert str(spring) == "2027-03-28 00:30 to 2027-03-28 01:00"
    assert str(autumn) == "2027-10-31 00:15 to 2027-10-31 01:45"


@pytest.mark.parametrize(
    "text",
    [
        "sun 02:00-04:00 in Europe/Berlin, drain 30m",
        "22:00-02:00 except 2027-12-24",
        "2027-03-28 02:00 to 2027-03-28 04:00, drain 1h30m",
        "2027-03-28 02:00:30 to 2027-03-28 04:00",
    ],
)
def test_the_text_of_maintenance_is_read_as_it_was_meant(text: str) -> None:
    assert str(parse_maintenance(text)) == text
    assert parse_maintenance(str(parse_maintenance(text))) == parse_maintenance(text)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("00:00-24:00", "never ends is a pause"),
        ("always", "never ends is a pause"),
        ("2027-03-28 04:00 to 2027-03-28 02:00", "must end after it has begun"),
        ("2027-03-28 04:00 to 2027-03-29 soon", 'cannot read "2027-03-29 soon"'),
        ("sundays", 'cannot read "sundays"'),
        ("sun 02:00-04:00, drain slowly", "cannot read the duration 'slowly'"),
        (7, "maintenance cannot be set to 7"),
    ],
)
def test_maintenance_that_cannot_be_meant_is_refused(said: object, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        queue(maintenance=said)


def test_maintenance_is_by_windows_or_between_two_moments() -> None:
    for given in (
        {},
        {"start": 1},
        {"windows": parse_windows("02:00-04:00"), "start": 1, "end": 2},
    ):
        with pytest.raises(BadInput, match="by windows, or has a start and an end"):
            Maintenance(**given)
    with pytest.raises(BadInput, match="drains from 0 to 1,000 years"):
        Maintenance(start=1, end=2, drain=-1)
    with pytest.raises(BadInput, match="outside the years 2 to 9998"):
        Maintenance(start=1, end=10**30)
