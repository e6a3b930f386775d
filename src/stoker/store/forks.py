"""Forks: what must not be carried from a process into its child.

A lock that another thread holds at the moment of a fork stays locked in the child for ever, for
that thread does not live there. And SQLite remembers, for the whole process, which file locks it
has; a child would trust in locks that only its parent holds. So whoever keeps such things puts
them away before a fork, and takes them up again afterwards, on both sides.
"""

from __future__ import annotations

import contextlib
import os
from typing import Protocol
from weakref import WeakSet


class Keeper(Protocol):
    """Somebody with something that must not be carried into a child."""

    def before_fork(self) -> None:
        """Put it away. Called in the thread that forks."""

    def after_fork(self, *, in_child: bool) -> None:
        """Take it up again. In the child no other thread runs."""


_keepers: WeakSet[Keeper] = WeakSet()


def heed_forks(keeper: Keeper) -> None:
    """Tell the keeper of every fork from now on."""
    _keepers.add(keeper)


def _before() -> None:
    for keeper in list(_keepers):
        keeper.before_fork()


def _after(*, in_child: bool) -> None:
    for keeper in list(_keepers):
        with contextlib.suppress(Exception):
            # One keeper's trouble must not keep the others' locks locked.
            keeper.after_fork(in_child=in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(in_child=False),
        after_in_child=lambda: _after(in_child=True),
    )
