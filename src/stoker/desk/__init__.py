"""The desk: the use cases. Whoever has business with jobs comes here.

desk = Desk(MemoryStore())
desk.intake     enqueue, spawn
desk.dispatch   claim; sessions of workers
desk.report     finish, fail, release, wait, touch
desk.control    cancel, revive, edit, delete, reply; settings of queues
desk.byhand     finish, retry, fail, requeue ... for those who hold no lease
desk.orders     many jobs all or none, as children, or only where there is none yet
desk.push       jobs for workers that wait to be given one
desk.announced  arrivals and ends that are rung out with their commit
desk.schedules  jobs that repeat: list, pause, resume, run now
desk.limits     limits that code declares for its tasks
desk.throttling asking throttlers, and doing as they say
desk.pacing     the first job of a period, the last before it is quiet
desk.flows      chains of jobs, and many with one that follows them
desk.store      looking: get, find, survey
"""

from __future__ import annotations

import random
from collections.abc import Callable

from stoker.desk.announced import Announced
from stoker.desk.byhand import ByHand
from stoker.desk.clerk import Clerk, random_token
from stoker.desk.control import Control
from stoker.desk.dispatch import Dispatch
from stoker.desk.flows import Flows
from stoker.desk.intake import Intake, Placement, Twin
from stoker.desk.limits import Limits
from stoker.desk.orders import Orders
from stoker.desk.pacing import Pacing
from stoker.desk.push import Push
from stoker.desk.replies import Reply
from stoker.desk.report import Report
from stoker.desk.schedules import Schedules
from stoker.desk.throttling import Throttling
from stoker.store import Store

__all__ = ["Desk", "Placement", "Reply", "Twin"]


class Desk:
    """All use cases over one store: what is beneath tasks and workers.

    >>> from stoker import Job, open_store
    >>> desk = Desk(open_store("memory:"))
    >>> desk.intake.enqueue(Job("mail", payload=b"7"))
    Placement(id=1, fresh=True)
    >>> (job,) = desk.dispatch.claim(["mail"])
    >>> desk.report.finish(job, result=b"14").state.name
    'FINISHED'
    """

    def __init__(
        self,
        store: Store,
        *,
        dice: Callable[[], float] = random.random,
        token: Callable[[], int] = random_token,
    ) -> None:
        self.store = store
        self.clerk = Clerk(store, dice=dice, token=token)
        self.intake = Intake(self.clerk)
        self.dispatch = Dispatch(self.clerk)
        self.report = Report(self.clerk)
        self.control = Control(self.clerk)
        self.byhand = ByHand(self.clerk)
        self.orders = Orders(self.clerk)
        self.push = Push(self.clerk)
        self.announced = Announced(self.clerk)
        self.schedules = Schedules(self.clerk)
        self.limits = Limits(self.clerk, self.control.settings)
        self.throttling = Throttling(self.clerk, self.dispatch)
        self.pacing = Pacing(self.clerk)
        self.flows = Flows(self.clerk)
