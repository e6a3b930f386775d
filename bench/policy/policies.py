"""The policies under which jobs are drained, and a loop on a queue that has one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import NamedTuple

from bench.engines.engine import Place
from bench.loop import BATCH
from bench.ours import AnyStoreLoop, configure
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.rate import Rate
from stoker.store.open import open_store

_KEYS = 1_000
_WIDE = Rate(1_000_000_000, 1_000_000, burst=1_000_000_000)


class Policy(NamedTuple):
    """Settings of a queue, and how many keys its jobs have."""

    settings: QueueSettings
    keys: int = 0


UNLIMITED = "no policy"
KEYED = f"no policy, {_KEYS:,} keys"
AIMED_AT: Mapping[str, Policy] = {
    "a limit for the queue": Policy(QueueSettings(capacity=10 * BATCH)),
    f"{_KEYS:,} keys, 2 places each": Policy(QueueSettings(key_capacity=2), _KEYS),
    "a bucket, wide open": Policy(QueueSettings(rate=_WIDE)),
    f"{_KEYS:,} keys that take turns": Policy(QueueSettings(fair=True), _KEYS),
}
DRAINED: Mapping[str, Policy] = {
    UNLIMITED: Policy(DEFAULTS),
    KEYED: Policy(DEFAULTS, _KEYS),
    **AIMED_AT,
}


@contextmanager
def policed(place: Place, policy: Policy) -> Iterator[AnyStoreLoop]:
    """A loop through the store whose queue has a policy."""
    loop = AnyStoreLoop(open_store(place.url), keys=policy.keys)
    with closing(loop):
        configure(loop.store, policy.settings)
        yield loop
