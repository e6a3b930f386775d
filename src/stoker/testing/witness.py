"""What a test can see of the jobs of an app, and say about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from stoker.client import JobHandle, Stoker, Task
from stoker.errors import BadInput
from stoker.kernel.duration import text
from stoker.kernel.job import LIVE, Job, State
from stoker.store import Filter
from stoker.testing.clock import VirtualClock

R = TypeVar("R")
Arguments = Sequence[Any] | Mapping[str, Any]

_SHOWN = 10
_ALL = 1_000_000_000


class Witness:
    """Looks at the jobs of an app. An assertion that does not hold tells what there is instead."""

    app: Stoker
    clock: VirtualClock

    def jobs(
        self,
        state: State | None = None,
        name: str | Task[..., Any] | None = None,
        queue: str | None = None,
    ) -> list[Job]:
        """Jobs by what is known of them, in the order in which they came."""
        # What matches nothing by mistake would let any test pass that wants no such job.
        _check("state= takes a State, such as State.FAILED", state, State)
        _check("name= takes a task or its name", name, Task, str)
        _check("queue= takes the name of a queue", queue, str)
        named = name.name if isinstance(name, Task) else name
        return self._find(states=() if state is None else (state,), name=named, queue=queue)

    def _find(self, **facts: Any) -> list[Job]:
        return self.app.desk.store.find(Filter(**facts, limit=_ALL))

    # -- asserting -------------------------------------------------------------------------

    def assert_enqueued(
        self, task: Task[..., Any] | str, args: Arguments | None = None, *, count: int | None = None
    ) -> list[JobHandle[Any]]:
        """There are jobs of this task that have not ended: at least one, or exactly `count`.

        `args` are the arguments as they were given, by place or by name.
        """
        if not isinstance(task, Task):
            task = self.app[task]
        wanted = None if args is None else _payload(task, args)
        there = [job for job in self.jobs(name=task) if job.state in LIVE]
        found = [job for job in there if wanted is None or _same(job.payload, wanted)]
        if len(found) != count if count is not None else not found:
            amount = "a job" if count is None else f"{count} jobs"
            with_args = "" if args is None else f" with {args!r}"
            raise AssertionError(
                f"expected {amount} of {task.name}{with_args} to be enqueued, found {len(found)}; "
                + self._shown(there or self.jobs())
            )
        return [JobHandle(self.app, job.id, task.returns) for job in found]

    def assert_finished(self, handle: JobHandle[R]) -> R:
        """The job has finished; returns what its handler returned."""
        self._assert_state(handle.job, State.FINISHED)
        return handle.result

    def assert_failed(self, handle: JobHandle[Any], match: str | None = None) -> str:
        """The job has failed for good; `match` is searched for in its error, which is returned."""
        job = handle.job
        self._assert_state(job, State.FAILED)
        error = job.error or ""
        if match is not None and not re.search(match, error):
            raise AssertionError(f"job {job.id} failed, but not with {match!r}:\n{error}")
        return error

    def assert_nothing_failed(self) -> None:
        """No job has failed, or is to be tried again because of an error."""
        wrong = [job for job in self.jobs() if job.error and job.state is not State.CANCELLED]
        if wrong:
            amount = "1 job" if len(wrong) == 1 else f"{len(wrong)} jobs"
            raise AssertionError(f"{amount} went wrong; {self._shown(wrong)}\n{wrong[0].error}")

    def assert_nothing_left(self) -> None:
        """No job is still to run, now or later. Schedules that wait for their hour do not count."""
        left = [job for job in self._find(states=tuple(LIVE)) if job.policy.repeat is None]
        if left:
            amount = "1 job is" if len(left) == 1 else f"{len(left)} jobs are"
            raise AssertionError(f"{amount} left; {self._shown(left)}")

    def _assert_state(self, job: Job, state: State) -> None:
        if job.state is not state:
            raise AssertionError(
                f"expected job {job.id} ({job.name}) to be {state.name}: {self._line(job)}"
                + (f"\n{job.error}" if job.error else "")
            )

    # -- telling ---------------------------------------------------------------------------

    def _shown(self, jobs: list[Job]) -> str:
        if not jobs:
            return "there are no jobs at all"
        lines = [self._line(job) for job in jobs[:_SHOWN]]
        more = [f"... and {len(jobs) - _SHOWN} more"] if len(jobs) > _SHOWN else []
        return "\n  ".join(["there are:", *lines, *more])

    def _line(self, job: Job) -> str:
        payload = job.payload[:200].decode(errors="replace")
        facts = [f"job {job.id} {job.state.name} {job.name} {payload}"]
        if job.state is State.QUEUED and job.due_at > self.clock():
            facts.append(f"due in {text(job.due_at - self.clock())}")
        if job.attempt:
            facts.append(f"after try {job.attempt}")
        if job.waits_for is not None:
            facts.append(f"waits for {job.waits_for}")
        if job.error:
            facts.append(job.error.partition("\n")[0])
        return ", ".join(facts)


def _check(words: str, said: object, *kinds: type) -> None:
    if said is not None and not isinstance(said, kinds):
        raise BadInput(f"{words}, not {said!r}")


def _payload(task: Task[..., Any], args: Arguments) -> bytes:
    call = task.call(**args) if isinstance(args, Mapping) else task.call(*args)
    return call.job.payload


def _same(payload: bytes, wanted: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(payload) == msgspec.json.decode(wanted))
    except msgspec.DecodeError:
        return payload == wanted
