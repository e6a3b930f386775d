"""How a job wants to be treated: one value, shared by all jobs of a kind.

A policy is data through and through, so that any process can act on it, also one that has
none of the user's code: the recoverer needs no handler to know what a lost job deserves.
"""

from __future__ import annotations

import enum

import msgspec

from stoker.errors import BadInput
from stoker.kernel.duration import is_time
from stoker.kernel.ranges import check_range
from stoker.kernel.repeat import parse_repeat
from stoker.kernel.retention import Retention
from stoker.kernel.retry import Never, RetryPolicy
from stoker.kernel.window import Windows

DAY = 24 * 3600 * 1_000_000
MOST_CRASHES = 2**31 - 1


class OnLost(enum.Enum):
    """What becomes of a job whose lease ended without a word from its worker.

    >>> Policy(on_lost=OnLost.FAIL).on_lost.value
    'fail'
    """

    REQUEUE = "requeue"
    """Runs again at once, in its old place: at least once."""
    RETRY = "retry"
    """Treated as a failure: the retry policy decides."""
    FAIL = "fail"
    """Fails for good: at most once."""
    STAY = "stay"
    """Stays RUNNING until somebody looks after it: the lease never ends by itself. Only a crash
    that was seen ends the job, as FAILED."""


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Everything about a job's treatment that is not the job itself.

    `timeout` limits one try, in microseconds (None: no limit). `crash_limit` is the number of
    lost workers after which a job is parked as FAILED (None: never). `repeat` is the text
    `kernel.repeat.parse_repeat` reads. `windows` are the hours in which it may start. `retention`
    says how long it is kept when it has ended (None: as its queue says).

    >>> policy = Policy(timeout=30_000_000, repeat="every 5m")
    >>> policy.on_lost.name, policy.crash_limit
    ('REQUEUE', 3)
    """

    timeout: int | None = DAY
    on_lost: OnLost = OnLost.REQUEUE
    crash_limit: int | None = 3
    retry: RetryPolicy = Never()
    repeat: str | None = None
    windows: Windows | None = None
    retention: Retention | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and not is_time(self.timeout, least=1):
            raise BadInput(
                "timeout must be more than 0 and at most 1,000 years; leave it None for no limit"
            )
        if self.crash_limit is not None:
            what = "crash_limit (None: no limit)"
            check_range(what, self.crash_limit, 1, MOST_CRASHES, whole=True)
        if self.repeat is not None:
            parse_repeat(self.repeat)


PLAIN = Policy()
"""What a job gets when nobody said anything."""
