"""Stoker: a job queue that never loses an acknowledged job.

>>> from stoker import Desk, Job, open_store
>>> desk = Desk(open_store("memory:"))
>>> placed = desk.intake.enqueue(Job("mail", payload=b'{"to": "ann"}'))
>>> (job,) = desk.dispatch.claim(["mail"])
>>> desk.report.finish(job, b'"sent"').state.name
'FINISHED'
"""

from stoker.desk import Desk, Placement, Reply, Twin
from stoker.errors import StokerError
from stoker.kernel.job import Format, Job, State
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import Order, QueueSettings, Retention
from stoker.kernel.retry import Again, Failure, GiveUp, failure_of
from stoker.kernel.retry_forms import by_error, custom, exponential, fixed, linear, listed, never
from stoker.kernel.window import Windows, parse_windows
from stoker.service import open_store

__version__ = "0.1.0"

__all__ = [
    "Again",
    "Desk",
    "Failure",
    "Format",
    "GiveUp",
    "Job",
    "OnLost",
    "Order",
    "Placement",
    "Policy",
    "QueueSettings",
    "Reply",
    "Retention",
    "State",
    "StokerError",
    "Twin",
    "Windows",
    "by_error",
    "custom",
    "exponential",
    "failure_of",
    "fixed",
    "linear",
    "listed",
    "never",
    "open_store",
    "parse_windows",
]
