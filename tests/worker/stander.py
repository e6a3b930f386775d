"""A worker process: `python -m tests.worker.stander URL`. It ends when it is killed."""

from __future__ import annotations

import sys
import threading

from stoker import Stoker


def main(url: str) -> None:
    """Work for ever."""
    app = Stoker(url)
    app.task(name="work")(list[int]().append)
    app.worker(concurrency=1).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
