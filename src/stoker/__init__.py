"""Stoker: a job queue that never loses an acknowledged job.

>>> from stoker import Stoker
>>> app = Stoker("memory:")
>>> @app.task(queue="mail")
... def welcome(user: int) -> str:
...     return f"hello {user}"
>>> job = welcome.enqueue(7)
>>> worker = app.worker(); worker.start()
>>> job.wait(timeout="10s")
'hello 7'
>>> worker.stop()
"""

from importlib import import_module
from typing import TYPE_CHECKING

from stoker.errors import StokerError

if TYPE_CHECKING:
    from stoker.client import (
        Call,
        Flow,
        JobFailed,
        JobHandle,
        Stoker,
        Task,
        WaitTimeout,
        chain,
        group,
        previous,
    )
    from stoker.desk import Desk, Placement, Reply, Twin
    from stoker.desk.children import Children
    from stoker.desk.throttle import Throttle
    from stoker.kernel.flow import Summary
    from stoker.kernel.hours import Maintenance
    from stoker.kernel.job import Format, Job, State
    from stoker.kernel.policy import OnLost, Policy
    from stoker.kernel.queue import Order, QueueSettings, Retention
    from stoker.kernel.rate import Rate, parse_rate
    from stoker.kernel.retry import Again, Failure, GiveUp, failure_of
    from stoker.kernel.retry_forms import (
        by_error,
        custom,
        exponential,
        fixed,
        linear,
        listed,
        never,
    )
    from stoker.kernel.window import Windows, parse_windows
    from stoker.store.open import open_store
    from stoker.worker.context import Context, Retry, current
    from stoker.worker.performing import Middleware
    from stoker.worker.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Again",
    "Call",
    "Children",
    "Context",
    "Desk",
    "Failure",
    "Flow",
    "Format",
    "GiveUp",
    "Job",
    "JobFailed",
    "JobHandle",
    "Maintenance",
    "Middleware",
    "OnLost",
    "Order",
    "Placement",
    "Policy",
    "QueueSettings",
    "Rate",
    "Reply",
    "Retention",
    "Retry",
    "State",
    "Stoker",
    "StokerError",
    "Summary",
    "Task",
    "Throttle",
    "Twin",
    "WaitTimeout",
    "Windows",
    "Worker",
    "by_error",
    "chain",
    "current",
    "custom",
    "exponential",
    "failure_of",
    "fixed",
    "group",
    "linear",
    "listed",
    "never",
    "open_store",
    "parse_rate",
    "parse_windows",
    "previous",
]

# Names are fetched when they are first asked for: whoever needs a part of the house, such as the
# command line, does not wait for all of it.
_HOMES = {
    "stoker.client": "Call Flow JobFailed JobHandle Stoker Task WaitTimeout chain group previous",
    "stoker.desk": "Desk Placement Reply Twin",
    "stoker.desk.children": "Children",
    "stoker.kernel.flow": "Summary",
    "stoker.kernel.hours": "Maintenance",
    "stoker.kernel.job": "Format Job State",
    "stoker.kernel.policy": "OnLost Policy",
    "stoker.kernel.queue": "Order QueueSettings Retention",
    "stoker.kernel.rate": "Rate parse_rate",
    "stoker.kernel.retry": "Again Failure GiveUp failure_of",
    "stoker.kernel.retry_forms": "by_error custom exponential fixed linear listed never",
    "stoker.desk.throttle": "Throttle",
    "stoker.kernel.window": "Windows parse_windows",
    "stoker.store.open": "open_store",
    "stoker.worker.context": "Context Retry current",
    "stoker.worker.performing": "Middleware",
    "stoker.worker.worker": "Worker",
}

if not TYPE_CHECKING:  # a type checker would take it for a promise that there is every name

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names.split():
                return globals().setdefault(name, getattr(import_module(home), name))
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
