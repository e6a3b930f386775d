"""The leanest honest job loops on Redis: one with lists, one with a hash for each job.

Both keep what they hand out under a lease until it is done, so they are queues, and nothing else.
Only the holder of a lease can end it. With lists a job is its own value, first come, first served;
with hashes jobs have ids and moments at which they are due.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.engines.engine import Place
from bench.plan import portions
from bench.raw import PAYLOAD
from stoker.store.clock import wall_clock

_LUA = Path(__file__).parent / "lua"
_LEASE = 60_000_000
_QUEUE, _LEASES, _LAST = "ready", "leases", "last"


def connect(url: str) -> Any:
    """A client that sends every command once."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))


def _script(client: Any, name: str) -> Any:
    return client.register_script((_LUA / f"{name}.lua").read_text(encoding="utf-8"))


class RawLists:
    """A list of jobs, and a sorted set of those that are held: one script does all."""

    script = "swap_lists"

    def __init__(self, place: Place) -> None:
        self._client = connect(place.url)
        self._swap = _script(self._client, self.script)
        self._ids = itertools.count(1)
        self._tokens = itertools.count(1)

    def fill(self, count: int) -> None:
        """A thousand in one command."""
        for portion in portions(count):
            jobs = (b"%d:%s" % (next(self._ids), PAYLOAD) for _ in range(portion))
            self._client.rpush(_QUEUE, *jobs)

    def claim(self, batch: int) -> Sequence[bytes]:
        """Take the foremost jobs."""
        return self.swap((), batch)

    def finish(self, held: Sequence[bytes]) -> None:
        """Forget the jobs held."""
        self.swap(held, 0)

    def swap(self, held: Sequence[bytes], batch: int) -> Sequence[bytes]:
        """Both in one script."""
        asked = (batch, wall_clock() + _LEASE, next(self._tokens), *held)
        jobs: list[bytes] = self._swap((_QUEUE, _LEASES), asked)
        return jobs

    def unfinished(self) -> int:
        """How many jobs are left."""
        return int(self._client.llen(_QUEUE)) + int(self._client.zcard(_LEASES))

    def close(self) -> None:
        """Let go of the server."""
        self._client.close()


class RawListsInBulk(RawLists):
    """The same with fewer commands in the script: the least that Redis can do for a queue."""

    script = "swap_lists_in_bulk"


class RawHashes:
    """A hash for each job, sorted sets of ids, and a script for each step."""

    def __init__(self, place: Place) -> None:
        self._client = connect(place.url)
        self._fill = _script(self._client, "fill_hashes")
        self._claim = _script(self._client, "claim_hashes")
        self._finish = _script(self._client, "finish_hashes")
        self._tokens = itertools.count(1)
        self._token = 0

    def fill(self, count: int) -> None:
        """A thousand in one script."""
        for portion in portions(count):
            self._fill((_QUEUE, _LAST), (wall_clock(), *[PAYLOAD] * portion))

    def claim(self, batch: int) -> Sequence[Sequence[bytes]]:
        """Take the foremost jobs."""
        self._token = next(self._tokens)
        asked = (batch, wall_clock() + _LEASE, self._token)
        jobs: list[list[bytes]] = self._claim((_QUEUE, _LEASES), asked)
        return jobs

    def finish(self, held: Sequence[Sequence[bytes]]) -> None:
        """Forget the jobs held."""
        self._finish((_LEASES,), (self._token, *(job[0] for job in held)))

    def swap(self, held: Sequence[Sequence[bytes]], batch: int) -> Sequence[Sequence[bytes]]:
        """One after the other."""
        self.finish(held)
        return self.claim(batch)

    def unfinished(self) -> int:
        """How many jobs are left."""
        return int(self._client.zcard(_QUEUE)) + int(self._client.zcard(_LEASES))

    def close(self) -> None:
        """Let go of the server."""
        self._client.close()
