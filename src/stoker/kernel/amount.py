"""Amounts: weights and capacities, as people write them and as they are counted."""

from __future__ import annotations

import math

from stoker.errors import BadInput
from stoker.kernel.job import WHOLE_WEIGHT


def units(amount: float) -> int:
    """A weight or capacity in thousandths, as it is counted."""
    if not math.isfinite(amount * WHOLE_WEIGHT):
        raise BadInput(f"{amount} is no amount; give a number, or nothing at all for no limit")
    counted = round(amount * WHOLE_WEIGHT)
    if abs(counted - amount * WHOLE_WEIGHT) > 1e-6:
        raise BadInput(f"{amount} is finer than a thousandth; round it to three decimals")
    return counted


def amount_text(amount: float) -> str:
    """An amount as `units` counts it: no thousandth is lost, and no exponent is written."""
    return f"{amount:.3f}".rstrip("0").rstrip(".")
