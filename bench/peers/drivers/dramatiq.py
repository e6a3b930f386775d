"""dramatiq: its Redis broker, and its worker with threads."""

from __future__ import annotations

import sys

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]
from dramatiq.cli import main as run_workers  # type: ignore[import-not-found]
from dramatiq.cli import make_argument_parser

from bench.peers.drivers import tally, till

dramatiq.set_broker(RedisBroker(url=tally.url()))
NOTHING = dramatiq.actor(tally.Tally().handle, actor_name="nothing")


def main() -> None:
    if sys.argv[1] == "enqueue":
        till.serve(NOTHING.send, None)
    else:
        words = [__spec__.name, "--processes", sys.argv[2]]
        run_workers(make_argument_parser().parse_args(words))


if __name__ == "__main__":
    main()
