"""Parameters as they stand in headers: read into values, or refused with their status line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from stoker.doors.bedrock.refusals import (
    INVALID_PRIORITY,
    MALFORMED_JOB_ID,
    MALFORMED_NAME,
    MISSING_JOB_ID,
    MISSING_NAME,
    NO_OBJECT,
    Refusal,
)
from stoker.kernel.job import LARGEST_ID
from stoker.kernel.zones import END, FIRST

Headers = Mapping[str, str]
Data = dict[str, msgspec.Raw]

SECOND = 1_000_000
MILLISECOND = 1_000
PRIORITIES = {str(number): number for number in (0, 250, 500, 750, 850, 1000)}
DEFAULT_PRIORITY = 500
LONGEST_NAME = 255

_ID = re.compile(r"0|-?[1-9][0-9]{0,18}")
_LEADING_INTEGER = re.compile(r"[ \t]*([+-]?[0-9]{1,18})")
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?Z?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_OBJECT = msgspec.json.Decoder(Data)


def job_id(headers: Headers) -> int:
    """The job that is meant."""
    text = headers.get("jobid", "")
    if not text:
        raise Refusal(MISSING_JOB_ID)
    if _ID.fullmatch(text) is None or not -LARGEST_ID <= int(text) <= LARGEST_ID:
        raise Refusal(MALFORMED_JOB_ID)
    return int(text)


def name(text: str, longest: int = LONGEST_NAME) -> str:
    """The name of a job, or of those that are asked for."""
    if not text:
        raise Refusal(MISSING_NAME)
    if "\0" in text or not _is_utf8(text) or len(text.encode()) > longest:
        raise Refusal(MALFORMED_NAME)
    return text


def integer(text: str) -> int:
    """The number with which a text begins, as C reads it; anything else is 0."""
    match = _LEADING_INTEGER.match(text)
    return int(match[1]) if match else 0


def flag(text: str) -> bool:
    """`true` in any case, or a number that is not 0."""
    return text.lower() == "true" or integer(text) != 0


def listed(text: str) -> list[str]:
    """What stands between commas, without the spaces that follow them."""
    return [element for part in text.split(",") if (element := part.lstrip(" "))]


def priority(text: str) -> int:
    """One of the six priorities."""
    found = PRIORITIES.get(text)
    if found is None:
        raise Refusal(INVALID_PRIORITY)
    return found


def data_object(text: str) -> Data:
    """A JSON object, its values as they were written."""
    try:
        return _OBJECT.decode(text.encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise Refusal(NO_OBJECT) from None


def moment(text: str, refusal: str) -> int:
    """A time in UTC such as `2042-01-01 12:00:00`; the time of day may be left out."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise Refusal(refusal)
    *fields, fraction = match.groups(default="0")
    try:
        at = datetime(*map(int, fields), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        raise Refusal(refusal) from None
    micros = int(fraction.ljust(6, "0")[:6])
    reckoned = (at - _EPOCH) // _SECOND * SECOND + micros
    if not FIRST <= reckoned < END:
        raise Refusal(refusal)
    return reckoned


def stamp(at: int) -> str:
    """A moment in whole seconds."""
    return _stamp(at // SECOND)


def fine_stamp(at: int) -> str:
    """A moment with its milliseconds."""
    return f"{_stamp(at // SECOND)}.{at % SECOND // MILLISECOND:03d}"


@lru_cache(maxsize=4096)
def _stamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(" ")


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
