"""Operations on schedules: jobs that repeat."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from stoker.desk.schedules import Schedule
from stoker.doors.cli.words import iso
from stoker.doors.forms import ScheduleForm, schedule_form
from stoker.doors.http import wishes
from stoker.doors.http.answers import Answer, told
from stoker.doors.http.endpoint import Call, Operation
from stoker.doors.http.jobs import Placed
from stoker.doors.http.register import Scope
from stoker.kernel.job import Job
from stoker.kernel.policy import Policy


class Schedules(msgspec.Struct, frozen=True):
    """All schedules, by name."""

    schedules: list[ScheduleForm]


class Runs(msgspec.Struct, frozen=True):
    """When something runs, if each run starts on time and takes no time."""

    runs: list[str]


class Preview(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When would this run? `repeat` is a text such as `every 5m` or `cron 0 5 * * *`."""

    repeat: str
    windows: str | None = None
    count: Annotated[int, Meta(ge=1, le=1000)] = 10


async def list_schedules(call: Call) -> Answer:
    """All schedules."""
    desk = call.office.desk
    found = await call.office.run(desk.schedules.all)
    now = desk.store.now()
    return told(Schedules([schedule_form(each, now) for each in found]))


async def get_schedule(call: Call) -> Answer:
    """One schedule."""
    found = await call.office.run(call.office.desk.schedules.get, call.path["name"])
    return _shown(call, found)


async def change_schedule(call: Call) -> Answer:
    """Stop a schedule, or let it go on from now."""
    schedules = call.office.desk.schedules
    act = schedules.pause if call.body.paused else schedules.resume
    found = await call.office.run(act, call.path["name"])
    call.office.observer.nudge()
    return _shown(call, found)


async def run(call: Call) -> Answer:
    """One run now, beside the schedule."""
    placed = await call.office.run(call.office.desk.schedules.run, call.body.schedule)
    call.office.observer.nudge()
    return told(Placed(placed.id, placed.fresh), 201, location=f"/v1/jobs/{placed.id}")


async def preview(call: Call) -> Answer:
    """When a repeat would run."""
    asked: Preview = call.query
    policy = wishes.NewPolicy(repeat=asked.repeat, windows=asked.windows).read()
    return told(await call.office.run(_runs, policy, asked.count, call.office.desk.store.now()))


def _runs(policy: Policy, count: int, now: int) -> Runs:
    to_be = Schedule("", Job("", policy=policy), paused=True)
    return Runs([iso(at) for at in to_be.upcoming(count, now=now)])


def _shown(call: Call, schedule: Schedule) -> Answer:
    return told(schedule_form(schedule, call.office.desk.store.now()))


_OPERATE: tuple[Scope, ...] = ("operate",)

OPERATIONS = [
    Operation(
        *("GET", "/v1/schedules", list_schedules, "All schedules"),
        scopes=_OPERATE,
        answers={200: Schedules},
    ),
    Operation(
        *("GET", "/v1/schedules/{name:path}", get_schedule, "One schedule"),
        scopes=_OPERATE,
        answers={200: ScheduleForm},
        problems=("not_found",),
    ),
    Operation(
        *("PATCH", "/v1/schedules/{name:path}", change_schedule, "Stop a schedule, or go on"),
        scopes=_OPERATE,
        body=wishes.ScheduleChange,
        answers={200: ScheduleForm},
        problems=("not_found", "contended"),
        once=True,
    ),
    Operation(
        *("POST", "/v1/runs", run, "One run of a schedule, now"),
        scopes=_OPERATE,
        body=wishes.Run,
        answers={201: Placed},
        problems=("not_found",),
        once=True,
    ),
    Operation(
        *("GET", "/v1/preview", preview, "When a repeat would run"),
        scopes=("enqueue", "work", "operate"),
        query=Preview,
        answers={200: Runs},
    ),
]
