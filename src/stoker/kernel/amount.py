"""Amounts: weights and capacities, as people write them and as they are counted."""

from __future__ import annotations

from stoker.errors import BadInput
from stoker.kernel.job import WHOLE_WEIGHT
from stoker.kernel.ranges import check_range

MOST = 10**9
"""In thousandths, and times a thousand, it is still exact wherever it has to be reckoned with."""


def units(amount: float, what: str = "an amount") -> int:
    """A weight or capacity in thousandths, as it is counted."""
    check_range(what, amount, 0, MOST)
    counted = round(amount * WHOLE_WEIGHT)
    if abs(counted - amount * WHOLE_WEIGHT) > 1e-6:
        raise BadInput(f"{what} of {amount} is finer than a thousandth; round it to three decimals")
    return counted


def amount_text(amount: float) -> str:
    """An amount as `units` counts it: no thousandth is lost, and no exponent is written."""
    return f"{amount:.3f}".rstrip("0").rstrip(".")
