"""Locks and forks: what another thread held at the moment of a fork stays locked in the child for
ever, for that thread does not live there. So whoever keeps locks gets new ones in the child."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Keeper(Protocol):
    """Somebody with locks."""

    def renew_locks(self) -> None:
        """Called in the child, where no other thread runs."""


_keepers: WeakSet[Keeper] = WeakSet()


def renew_after_fork(keeper: Keeper) -> None:
    """Have the keeper's locks renewed in every child process."""
    _keepers.add(keeper)


def _renew_all() -> None:
    for keeper in list(_keepers):
        keeper.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
