"""Long work that tells how far it is, and that can be stopped.

python examples/progress_and_cancel.py
"""

from __future__ import annotations

import time

from stoker import JobFailed, JobHandle, Stoker, current

app = Stoker("memory:")


@app.task
def render(title: str, frames: int) -> str:
    try:
        for frame in range(frames):
            current().check()  # leaves here if somebody wants it to end
            current().progress(frame / frames)
            time.sleep(0.01)
    finally:
        print(f"the desk on which {title} was cut is cleared")
    return f"{title} has {frames} frames"


def watch(job: JobHandle[str], until: float) -> None:
    """Draw a bar until the job has come so far."""
    while (done := job.progress) < until:
        print(f"{'#' * int(20 * done):.<20}")
        time.sleep(0.05)


def main() -> None:
    worker = app.worker()
    worker.start()
    short = render.enqueue("Safety Last", 20)
    watch(short, 1.0)
    print(short.result)

    endless = render.enqueue("Metropolis", 1_000_000)
    watch(endless, 0.00001)
    print(f"somebody does not want it any more; it is still {endless.cancel()}")
    try:
        endless.wait(timeout="30s")
    except JobFailed as error:
        print(f"now it is {error.job.state}")
    worker.stop()
    app.close()


if __name__ == "__main__":
    main()
