"""The library a Python developer meets first: an app, its tasks and handles on their jobs."""

from stoker.client.app import Stoker
from stoker.client.flows import Flow, chain, group, previous
from stoker.client.handle import JobFailed, JobHandle, WaitTimeout
from stoker.client.task import Call, Task

__all__ = [
    "Call",
    "Flow",
    "JobFailed",
    "JobHandle",
    "Stoker",
    "Task",
    "WaitTimeout",
    "chain",
    "group",
    "previous",
]
