"""The library a Python developer meets first: an app, its tasks and handles on their jobs."""

from stoker.client.app import Stoker
from stoker.client.handle import JobFailed, JobHandle, WaitTimeout
from stoker.client.task import Call, Task

__all__ = ["Call", "JobFailed", "JobHandle", "Stoker", "Task", "WaitTimeout"]
