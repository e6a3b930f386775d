"""Hipq: jobs that send a request to another service, and end when its answer comes in.

>>> from stoker.hipq import Hipq
>>> from stoker.testing import harness
>>> hipq = Hipq("memory:")
>>> hipq.create_queue("orders", {"throttle_limit": 10, "job_types": [{"job_type": "charge"}]})
>>> hipq.set_handlers(
...     "orders",
...     "charge",
...     request=lambda job: None,  # sends job.job_data away, and names job.job_key
...     response=lambda job, answer: answer["paid"],
... )
>>> with harness(hipq.app) as stoker:
...     charge = {"job_type": "charge", "job_key": "4711", "job_data": {"coins": 11}}
...     job_id = hipq.queue_job("orders", charge)
...     stoker.drain()
...     print(hipq.job(job_id).state, hipq.respond("charge", "4711", {"paid": True}))
...     stoker.drain()
...     print(hipq.job(job_id).state, hipq.job(job_id).error)
1
running delivered
1
final NONE

hipq         the API, under both its names
definitions  queues, types and jobs as an application describes them
handlers     the request, response and retry functions of a type, as one task
job          a job as such an application sees it
"""

from stoker.hipq.definitions import JobDefinition, JobType, QueueDefinition, SortOrder
from stoker.hipq.handlers import NOT_YET, Final, TryAgain, Waits
from stoker.hipq.hipq import Hipq
from stoker.hipq.job import HipqJob, HipqState

__all__ = [
    "NOT_YET",
    "Final",
    "Hipq",
    "HipqJob",
    "HipqState",
    "JobDefinition",
    "JobType",
    "QueueDefinition",
    "SortOrder",
    "TryAgain",
    "Waits",
]
