"""A server that is down at first, an address that is wrong for good.

python examples/retries.py
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

from stoker import Desk, Job, Policy, State, by_error, failure_of, fixed, never, open_store

POLICY = Policy(
    retry=by_error({ConnectionError: fixed("200ms", limit=3)}, otherwise=never()),
)


def fetch(job: Job) -> bytes:
    if job.name == "typo":
        raise ValueError("htp is no protocol")
    if job.attempt < 3:
        raise ConnectionError("the server is down")
    return b"200 OK"


def attempt(desk: Desk, job: Job) -> None:
    try:
        after = desk.report.finish(job, result=fetch(job))
    except (ConnectionError, ValueError) as error:
        after = desk.report.fail(job, failure_of(error))
    print(f"{job.name}, try {job.attempt}: {after.state.name} {after.error or ''}".rstrip())


def main() -> None:
    with TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/jobs.db")
        desk = Desk(store)
        desk.intake.enqueue_many([Job("fetch", name, policy=POLICY) for name in ("page", "typo")])
        listener = store.bell.listen()
        while store.survey(["fetch"])[0].counts[State.QUEUED]:
            for job in desk.dispatch.claim(["fetch"], limit=10):
                attempt(desk, job)
            due = store.next_due(["fetch"])
            if due is not None:
                listener.wait((due - store.now()) / 1e6)
        listener.close()
        store.close()


if __name__ == "__main__":
    main()
