"""All benchmarks by name, in the order in which they are run and shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from bench import (
    backlog,
    bedrock,
    churn,
    claims,
    cluster,
    coalescing,
    depth,
    disk,
    http,
    inserts,
    processes,
    stdio,
    wakeups,
    worqr,
)
from bench.engines.engine import Engine
from bench.peers import contest
from bench.plan import Setup
from bench.policy import measures as policy
from bench.result import Result

Bench = Callable[[Setup], Result]

_OF_SQLITE: Mapping[str, Bench] = {
    "claims": claims.run,
    "inserts": inserts.run,
    "depth": depth.run,
    "processes": processes.run,
    "coalescing": coalescing.run,
    "wakeups": wakeups.run,
    "disk": disk.run,
}
_OF_ALL: Mapping[str, Callable[[Engine, Setup], Result]] = {
    "backlog": backlog.run,
    "policy": policy.run,
    "bedrock": bedrock.run,
    "http": http.run,
    "stdio": stdio.run,
    "worqr": worqr.run,
    "peers": contest.run,
}
_OF_SERVERS: Mapping[str, Callable[[Engine, Setup], Result]] = {"churn": churn.run}
_OF_REDIS: Mapping[str, Callable[[Engine, Setup], Result]] = {"cluster": cluster.run}


def names(engine: str) -> list[str]:
    """What there is to be measured on an engine."""
    first = _OF_SQLITE if engine == "sqlite" else _OF_SERVERS
    return [*first, *_OF_ALL, *(_OF_REDIS if engine == "redis" else ())]


def bench(name: str, engine: Engine) -> Bench:
    """The one of that name."""
    return _OF_SQLITE.get(name) or partial({**_OF_SERVERS, **_OF_ALL, **_OF_REDIS}[name], engine)
