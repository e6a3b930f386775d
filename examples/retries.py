"""A server that is down at first, an address that is wrong for good, one that asks for patience.

python examples/retries.py
"""

from __future__ import annotations

from stoker import (
    JobFailed,
    JobHandle,
    Retry,
    Stoker,
    by_error,
    current,
    fixed,
    never,
)

app = Stoker("memory:")


@app.task(retry=by_error({ConnectionError: fixed("100ms", limit=3)}, otherwise=never()))
def fetch(page: str) -> str:
    print(f"{page}, try {current().attempt}")
    if page.startswith("htp:"):
        raise ValueError("htp is no protocol")
    if page.endswith("busy") and current().attempt == 1:
        raise Retry("200ms", "429: come back later")
    if current().attempt < 3:
        raise ConnectionError("the server is down")
    return f"{page} is 200 OK"


def follow(job: JobHandle[str]) -> None:
    try:
        print(job.wait(timeout="30s"))
    except JobFailed as error:
        print(f"{error} after try {error.job.attempt}")


def main() -> None:
    worker = app.worker()
    worker.start()
    for page in ("http://down", "htp://typo", "http://busy"):
        follow(fetch.enqueue(page))
    worker.stop()
    app.close()


if __name__ == "__main__":
    main()
