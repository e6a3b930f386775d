"""Calls that belong together: one after the other, or all at once with one that follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stoker.client.handle import JobHandle
from stoker.client.task import PREVIOUS, Call, payloads_of
from stoker.errors import BadInput
from stoker.kernel.change import Copies
from stoker.kernel.flow import Step, Summary, step_of
from stoker.kernel.job import Job

if TYPE_CHECKING:
    from stoker.client.app import Stoker
    from stoker.desk import Desk


class Flow:
    """What `chain` and `group` make: to be enqueued as a whole, once or again.

    >>> from stoker import Stoker, chain
    >>> app = Stoker("memory:")
    >>> @app.task
    ... def say(word: str) -> str:
    ...     return word
    >>> flow = chain(say.call("one"), say.call("two"))
    >>> flow.enqueue().id, flow.enqueue().id
    (1, 3)
    """

    def __init__(self, app: Stoker, take_in: Callable[[Desk], int], returns: Any) -> None:
        self._app = app
        self._take_in = take_in
        self._returns = returns

    def enqueue(self) -> JobHandle[Any]:
        """Take it in; durable when this returns."""
        return JobHandle(self._app, self._take_in(self._app.desk), self._returns)

    async def aenqueue(self) -> JobHandle[Any]:
        """As `enqueue`, without blocking the event loop."""
        return await asyncio.to_thread(self.enqueue)


def previous() -> Any:
    """Stands for an argument that is to be the result of the step before it in a chain.

    >>> from stoker import Stoker, chain
    >>> app = Stoker("memory:")
    >>> @app.task
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> worker = app.worker(); worker.start()
    >>> chain(double.call(3), double.call(previous())).enqueue().wait(timeout="10s")
    12
    >>> worker.stop()
    """
    return PREVIOUS


def chain(*steps: Call) -> Flow:
    """Calls of which each is made a job when the one before has finished.

    The handle that `enqueue` gives has the result of the last step. If a step fails for good, or
    is cancelled, no further one is made and the chain has failed; its error says which.

    >>> from stoker import Stoker, previous
    >>> from stoker.testing import harness
    >>> app = Stoker("memory:")
    >>> @app.task(name="divide")
    ... def divide(a: float, b: float) -> float:
    ...     return a / b
    >>> with harness(app) as stoker:
    ...     good = chain(divide.call(6, 3), divide.call(previous(), b=4)).enqueue()
    ...     bad = chain(divide.call(1, 0), divide.call(previous(), 1)).enqueue()
    ...     stoker.drain(), good.result, bad.job.error
    (3, 0.5, 'step 1 of 2, job 4 (divide), failed: ZeroDivisionError: float division by zero')
    """
    app = _app_of(steps)
    if app is None:
        raise BadInput("a chain needs at least one step, made with task.call(...)")
    return Flow(app, lambda desk: desk.flows.chain([_step(c) for c in steps]), _returns(steps[-1]))


def group(calls: Sequence[Call], *, then: Call | None = None, app: Stoker | None = None) -> Flow:
    """Calls that run beside each other, and one that follows when all of them have ended.

    They are taken in all or none, in one durable step. `then` runs in any case, also if some of
    them failed or were cancelled: `current().children` tells it what became of them. The handle
    that `enqueue` gives is on it. Without `then` it is on a job that just counts, and whose result
    is a `Summary`. A group of no calls is over at once; `app` is for one without `then`, too.

    >>> from stoker import Stoker
    >>> from stoker.testing import harness
    >>> app = Stoker("memory:")
    >>> @app.task
    ... def invert(number: float) -> float:
    ...     return 1 / number
    >>> with harness(app) as stoker:
    ...     job = group([invert.call(number) for number in (2, 0, 4)]).enqueue()
    ...     stoker.drain(), job.result, list(job.children.results())
    (3, Summary(finished=2, failed=1, cancelled=0, pending=0), [0.5, 0.25])
    """
    app = _app_of(calls if then is None else (*calls, then)) or app
    if app is None:
        raise BadInput("a group of no calls needs a then=, or the app= it belongs to")
    following = Summary if then is None else _returns(then)
    last = None if then is None else then.job
    return Flow(app, lambda desk: desk.flows.gather(_jobs(calls), last), following)


def _app_of(calls: Sequence[Call]) -> Stoker | None:
    if not all(isinstance(call, Call) for call in calls):
        raise BadInput("chains and groups are made of calls, made with task.call(...)")
    apps = {call.task.app for call in calls}
    if len(apps) > 1:
        raise BadInput("the calls belong to different apps, hence to different stores")
    return next(iter(apps), None)


def _returns(call: Call) -> Any:
    return call.task.returns


def _step(call: Call) -> Step:
    whole = msgspec.structs.replace(call, takes=None)
    return step_of(whole.job, delay=call.task.delay, takes=call.takes)


def _jobs(calls: Sequence[Call]) -> Sequence[Job]:
    """Their jobs; those of one task differ in their payloads alone, and are told as such."""
    first = calls[0].task if calls else None
    if first is None or any(call.task is not first for call in calls):
        return [call.job for call in calls]
    return Copies(calls[0].job, payloads_of(calls))
