"""Which life finds out which mutant: it is looked at first, so that a mutant dies in a second.

Where another life would have found it out sooner, or this one no longer does, all others follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_KILLERS = {
    "postgres: a claim leaves out look_again": 22,
    "postgres: a head that gave way knows who followed the old one": 81,
    "postgres: a run begins behind the foremost": 4,
    "postgres: a run is gone when one has left": 4,
    "postgres: a unit of a job that is forgotten is not released": 5,
    "postgres: jobs are not placed anew when the order turns": 5,
    "postgres: nobody hears of dead sessions": 5,
    "postgres: paused queues are served": 10,
    "postgres: single jobs come before all who came together": 4,
    "postgres: turning the order forgets the lanes": 5,
    "postgres: who came together has no place when the order turns": 9,
    "postgres: who came together is overlooked": 4,
    "postgres: who came together is overlooked by a walk": 24,
    "redis: a full key lets more in": 8,
    "redis: a full queue lets more in": 8,
    "redis: a full task lets more in": 10,
    "redis: a key whose lane is shut has no turn behind it": 18,
    "redis: a rate lets all in": 33,
    "redis: a shut lane is never opened": 8,
    "redis: a slice of time never passes": 33,
    "redis: a task's use is forgotten": 7,
    "redis: jobs do not age": 8,
    "redis: jobs of several ranks are chosen by the first": 5,
    "redis: jobs that end together open no lane": 3,
    "redis: lanes sleep on when their moment has come": 9,
    "redis: nobody takes turns": 8,
    "redis: turns are forgotten from claim to claim": 8,
    "redis: units of keys are not counted when they get a limit": 36,
    "redis: what started is not remembered": 33,
    "redis: who joins before those known to follow a head is overlooked": 31,
    "sqlite: a job that is too heavy for its key never runs": 4,
    "sqlite: a key has as much room as before when it has taken some": 14,
    "sqlite: a key whose last job was taken away forgets its turn": 46,
    "sqlite: a lane sleeps on when its moment has come": 4,
    "sqlite: a lane whose head was taken has its old head": 12,
    "sqlite: a new job that comes before a lane's head is behind it": 12,
    "sqlite: a shut lane is never opened": 8,
    "sqlite: a task's use is forgotten": 9,
    "sqlite: in a queue by time the rank is not looked at": 13,
    "sqlite: jobs of weight 0 are forgotten beside those that count": 72,
    "sqlite: lanes keep the clock of a queue that is fair no more": 5,
    "sqlite: nobody behind a head has a turn before a round of them": 12,
    "sqlite: nobody is brought up to the clock": 24,
    "sqlite: nobody who waits comes before a round of heads": 98,
    "sqlite: other limits than those of keys are forgotten": 23,
    "sqlite: other ranks do not hear that their key had a turn": 11,
    "sqlite: the outer queue has no say": 108,
    "sqlite: turns are forgotten when a queue is given other settings": 64,
    "sqlite: what has started under a rate is forgotten": 33,
}
"""By the engine and what is wrong in it: the place of a life among those that are looked at."""


def likeliest_first(engine: str, mutant: str, lives: Sequence[T]) -> list[T]:
    """All lives, beginning with the one that is known to find out this mutant, if any is."""
    first = _KILLERS.get(f"{engine}: {mutant}", 0)
    return [lives[first], *lives[:first], *lives[first + 1 :]]
