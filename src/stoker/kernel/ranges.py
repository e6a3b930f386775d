"""Numbers within their range: what is beyond it no engine could reckon with.

The numbers are plain objects here, because structs do not check types when built in Python.
"""

from __future__ import annotations

from stoker.errors import BadInput

HIGHEST_RANK = 2**62


def check_range(what: str, value: object, low: float, high: float, *, whole: bool = False) -> None:
    """Refuse what is no number, or none within the range.

    >>> check_range("the factor", 2.5, 1, 1e9)
    >>> check_range("rank", float("nan"), -10, 10, whole=True)
    Traceback (most recent call last):
    stoker.errors.BadInput: rank must be a whole number from -10 to 10, not nan
    """
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or (whole and not isinstance(value, int))
        or not low <= value <= high
    ):
        kind = "whole number" if whole else "number"
        raise BadInput(f"{what} must be a {kind} from {low:,} to {high:,}, not {shown(value)}")


def shown(value: object) -> str:
    """A value as a message shows it; Python refuses to write a number of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return "one of thousands of digits"
