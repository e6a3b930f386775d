"""Times, durations, states and arguments, as people write and read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, overload

import msgspec

from stoker.errors import BadInput
from stoker.kernel.job import State
from stoker.kernel.zones import LAST_YEAR, is_moment, moment_of

SECOND = 1_000_000
_LAST = moment_of(datetime.max.replace(tzinfo=UTC)) // SECOND

# --- Times ---------------------------------------------------------------------------------------

_UNITS = ((86_400, "d", 2), (3_600, "h", 2), (60, "min", 2), (1, "s", 1))


@overload
def iso(at: int) -> str: ...


@overload
def iso(at: int | None) -> str | None: ...


def iso(at: int | None) -> str | None:
    """A moment for programs: ISO 8601, UTC, always with microseconds."""
    if at is None:
        return None
    moment = _calendar(at).replace(microsecond=at % SECOND)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def clock(at: int) -> str:
    """A moment for people, to the second."""
    return _calendar(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def _calendar(at: int) -> datetime:
    """The second of a moment. The next run of what is due when the calendar ends lies behind it:
    one line that cannot be written must not keep the others from being read."""
    return datetime.fromtimestamp(min(at // SECOND, _LAST), UTC)


def span(micros: float) -> str:
    """A duration in round words: 350 ms, 12 s, 4 min, 30 h, 12 d."""
    seconds = micros / SECOND
    if seconds < 0.001:
        return f"{micros:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    # A unit is used from twice its size on, so that 90 min is not rounded to 1 h.
    size, unit = next((size, unit) for size, unit, least in _UNITS if seconds >= size * least)
    return f"{seconds / size:.3g} s" if unit == "s" else f"{seconds // size:.0f} {unit}"


def distance(at: int, now: int) -> str:
    """How far off a moment is: in 4 min, 12 s ago, now."""
    apart = abs(at - now)
    if apart < SECOND:
        return "now"
    rounded = apart // SECOND * SECOND
    return f"in {span(rounded)}" if at > now else f"{span(rounded)} ago"


def both(at: int, now: int) -> str:
    """A moment and how far off it is."""
    return f"{clock(at)} ({distance(at, now)})"


def read_moment(text: str) -> int:
    """A moment from ISO 8601 text, which must say its zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f"cannot read the time {text!r}; write it like 2026-07-01T09:00Z or "
            "2026-07-01T09:00+02:00"
        ) from None
    if moment.tzinfo is None:
        raise BadInput(f"the time {text!r} has no zone; write {text}Z for UTC, or {text}+02:00")
    at = moment_of(moment)
    if not is_moment(at):
        raise BadInput(
            f"the time {text!r} is out of reach; give one from the year 2 to {LAST_YEAR}"
        )
    return at


# --- Jobs ----------------------------------------------------------------------------------------


def read_states(words: Iterable[str]) -> tuple[State, ...]:
    """States by name in any case, also several with commas between."""
    names = [name for word in words for name in word.split(",")]
    unknown = [name for name in names if name.upper() not in State.__members__]
    if unknown:
        known = ", ".join(state.name.lower() for state in State)
        raise BadInput(f"there is no state {unknown[0]!r}; choose from {known}")
    return tuple(State[name.upper()] for name in names)


def first_line(text: str | None) -> str:
    """What an error says before it shows its evidence."""
    return (text or "").partition("\n")[0]


def jobs_text(count: int) -> str:
    """`1 job`, `1,200 jobs`."""
    return "1 job" if count == 1 else f"{count:,} jobs"


# --- Arguments -----------------------------------------------------------------------------------

_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def read_arguments(words: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments from `name=value`, JSON values and plain words.

    One JSON object alone stands for named arguments, one JSON array alone for positional ones.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for word in words:
        match = _NAMED.fullmatch(word)
        if match is None:
            positional.append(_value(word))
        else:
            named[match[1]] = _value(match[2])
    if len(words) == 1 and positional and isinstance(positional[0], dict):
        return [], positional[0]
    if len(words) == 1 and positional and isinstance(positional[0], list):
        return positional[0], {}
    return positional, named


def _value(word: str) -> Any:
    try:
        return read_json(word)
    except BadInput:
        return word


def read_json(data: str | bytes) -> Any:
    """A value from JSON. Bad bytes and bottomless nesting are refused like any other fault."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"this is no JSON: {error}") from error
