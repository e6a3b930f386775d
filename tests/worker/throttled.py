"""A worker process for a throttled queue: `python -m tests.worker.throttled URL FOLDER [die]`.

Its handlers note in a file when they begin and end, its throttler keeps count in its state. With
`die` the process kills itself inside the first decision.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from stoker import Stoker, Throttle

AT_ONCE = 3


def make_app(url: str, folder: Path, *, die: bool = False) -> Stoker:
    """The app of these processes."""
    app = Stoker(url)

    def tell(text: str) -> None:
        with (folder / "ledger").open("a") as ledger:
            ledger.write(f"{text}\n")

    @app.task(name="work", queue="narrow")
    def work(number: int) -> int:
        tell(f"+ {number}")
        time.sleep(0.005)
        tell(f"- {number}")
        return os.getpid()

    @app.throttler("narrow")
    def few(throttle: Throttle) -> None:
        if die:
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        admitted = throttle.candidates[: min(throttle.room, AT_ONCE - len(throttle.running))]
        for job in admitted:
            throttle.admit(job)
        throttle.state = (throttle.state or 0) + len(admitted)

    return app


def main() -> None:
    """Work until nobody holds the other end of the pipe any more."""
    url, folder, *wishes = sys.argv[1:]
    worker = make_app(url, Path(folder), die="die" in wishes).worker(concurrency=2, ttl=3)
    worker.start()
    print("at work", flush=True)
    sys.stdin.read()
    worker.stop()


if __name__ == "__main__":
    main()
