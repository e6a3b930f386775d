"""The night watch: chores that put right what crashes and time have left behind.

Any process may run them, one at a time (`run_chores` holds a lock in the store); none is needed
for safety, only for things to go on. One chore a file, all the same shape, listed here; `rounds`
is how workers come to do them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stoker.desk.clerk import Clerk
from stoker.watch import recover, rouse, sweep

Chore = Callable[[Clerk], int]
"""Does a bounded piece of work and tells how many jobs it moved; 0 means nothing is left."""

CHORES: Mapping[str, Chore] = {
    "recover": recover.recover,
    "rouse": rouse.rouse,
    "sweep": sweep.sweep,
}

_TURN = 5_000_000
_MOST_TURNS = 20


def run_chores(
    clerk: Clerk, owner: str, *, turn: int = _TURN, keep_turn: bool = False
) -> dict[str, int] | None:
    """Run every chore until nothing is left, or None if it is somebody else's turn.

    A turn lasts `turn` microseconds, and is prolonged while there is much to do: so long the
    others wait for a runner that died. With `keep_turn` it is not given up at the end: whoever
    does the chores goes on doing them, and the others only look whether it still does.
    """
    if not clerk.store.hold("chores", owner, turn):
        return None
    try:
        return {name: _run(clerk, chore, owner, turn) for name, chore in CHORES.items()}
    finally:
        if not keep_turn:
            give_up_turn(clerk, owner)


def tidy_up(clerk: Clerk, owner: str, *, turn: int) -> None:
    """Tidy the store, unless it is somebody else's turn; the turn is kept."""
    if clerk.store.hold("chores", owner, turn):
        clerk.store.tidy()


def give_up_turn(clerk: Clerk, owner: str) -> None:
    """Let somebody else do the chores."""
    clerk.store.hold("chores", owner, 0)


def _run(clerk: Clerk, chore: Chore, owner: str, turn: int) -> int:
    moved = 0
    for _ in range(_MOST_TURNS):
        step = chore(clerk)
        moved += step
        if not step:
            break
        clerk.store.hold("chores", owner, turn)
    return moved
