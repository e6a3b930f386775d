"""Operations on jobs for those who put them in, and for those who look after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from stoker.desk import Placement, Twin
from stoker.desk.clerk import Result
from stoker.desk.control import Control
from stoker.desk.explain import explain
from stoker.doors.cli.words import read_states
from stoker.doors.forms import (
    ExplanationForm,
    JobForm,
    StateName,
    explanation_form,
    job_form,
    state_name,
)
from stoker.doors.http import wishes
from stoker.doors.http.answers import NOTHING, Answer, told
from stoker.doors.http.callbacks import with_callback
from stoker.doors.http.endpoint import Call, Handler, Operation, Short, unless_gone
from stoker.doors.http.marks import made_before, marked
from stoker.doors.http.numbers import number, read_number
from stoker.doors.http.problems import Changed
from stoker.doors.http.register import Scope
from stoker.errors import BadInput, Duplicate, NotFound, Refused, StokerError
from stoker.kernel.duration import micros
from stoker.kernel.job import Job, State
from stoker.store import Filter, Store


class Placed(msgspec.Struct, frozen=True):
    """Where a new job ended up; not fresh: it stands for one that was there already."""

    id: int
    fresh: bool


class AllPlaced(msgspec.Struct, frozen=True):
    """Where new jobs ended up, in the order in which they were given."""

    jobs: list[Placed]


class Page(msgspec.Struct, frozen=True):
    """Some jobs, and the cursor with which to ask for those behind them; null: there are none."""

    jobs: list[JobForm]
    next: str | None


class Done(msgspec.Struct, frozen=True):
    """What became of one job among many: its state, or the code of what stood in the way."""

    id: int
    state: StateName | None
    error: str | None = None
    detail: str | None = None


class AllDone(msgspec.Struct, frozen=True):
    """What became of many jobs, in the order in which they were given."""

    jobs: list[Done]


class Listing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs are meant, and how many of them at a time."""

    state: list[str] = []
    queue: str | None = None
    name: str | None = None
    key: str | None = None
    parent_id: wishes.JobId | None = None
    session: wishes.Session | None = None
    ref: str | None = None
    unique_key: str | None = None
    waits_for: str | None = None
    repeating: bool = False
    newest: bool = False
    limit: wishes.Count = 100
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,19}$")] | None = None


class Look(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait for the job's end."""

    wait: str | None = None


# -- putting in ----------------------------------------------------------------------------


async def enqueue(call: Call) -> Answer:
    """Enqueue one job."""
    wish: wishes.NewJob = call.body
    job, pace = wish.read(call.office.desk.store.now()), wish.pace
    if wish.debounce is None:
        (job,) = marked(call, [job])
    try:
        if wish.callback is None:
            placed = await call.office.enqueue(job, wish.twin, pace)
        elif pace is None:
            placed = await with_callback(call.office, job, wish.twin, wish.callback)
        else:
            raise BadInput("a job with a callback must be new; leave once_per and debounce out")
    except Duplicate as error:
        (made,) = await made_before(call, [job], error)
        placed = Placement(made, fresh=True)
    return _there(job, placed)


def _there(_: Job, placed: Placement) -> Answer:
    said = Placed(placed.id, placed.fresh)
    return told(said, 201 if placed.fresh else 200, location=f"/v1/jobs/{placed.id}")


def _plain(wish: wishes.NewJob, now: int) -> Job | None:
    """The job, unless something is said about others like it, or about its end."""
    return wish.read(now) if wish.is_plain else None


async def enqueue_many(call: Call) -> Answer:
    """Enqueue jobs all or none."""
    try:
        placed = await call.office.run(_take_in, call)
    except Duplicate as error:
        made = await made_before(call, _drafts(call), error)
        placed = [Placement(job_id, fresh=True) for job_id in made]
    call.office.observer.nudge()
    said = AllPlaced([Placed(each.id, each.fresh) for each in placed])
    return told(said, 201 if any(each.fresh for each in placed) else 200)


def _take_in(call: Call) -> list[Placement]:
    return call.office.desk.intake.enqueue_many(_drafts(call), twin=Twin(call.body.if_exists))


def _drafts(call: Call) -> list[Job]:
    now = call.office.desk.store.now()
    return marked(call, [draft.read(now) for draft in call.body.jobs])


# -- looking -------------------------------------------------------------------------------


async def list_jobs(call: Call) -> Answer:
    """Jobs by their facts, a page at a time."""
    asked: Listing = call.query
    wanted = Filter(
        states=read_states(asked.state),
        queue=asked.queue,
        name=asked.name,
        key=asked.key,
        parent_id=asked.parent_id,
        session=None if asked.session is None else number(asked.session),
        ref=asked.ref,
        unique_key=asked.unique_key,
        waits_for=asked.waits_for,
        repeating=asked.repeating,
        after=None if asked.cursor is None else number(asked.cursor),
        newest_first=asked.newest,
        limit=asked.limit,
    )
    return told(await call.office.run(_page, call.office.desk.store, wanted))


def _page(store: Store, wanted: Filter) -> Page:
    found = store.find(wanted)
    following = str(found[-1].id) if len(found) == wanted.limit else None
    return Page([job_form(job) for job in found], following)


async def get_job(call: Call) -> Answer:
    """One job, perhaps when it has ended."""
    job = await call.office.look(job_id(call))
    seconds = patience(call, call.query.wait)
    if seconds and not job.ended:
        await unless_gone(call.receive, call.office.observer.until_over(job.id, seconds))
        job = await call.office.look(job.id)
    return shown(job)


async def why(call: Call) -> Answer:
    """Why a job does not run."""
    found = await call.office.run(explain, call.office.desk.store, job_id(call))
    return told(explanation_form(found))


# -- looking after them --------------------------------------------------------------------


async def edit(call: Call) -> Answer:
    """Change a job; with If-Match only if nobody else has."""
    office, wanted = call.office, job_id(call)
    revision = None
    if (tags := _tags(call)) is not None:
        job = await office.look(wanted)
        if job.revision not in tags:
            raise Changed(f"job {job.id} is at revision {job.revision}")
        revision = job.revision
    facts = call.body.read(office.desk.store.now())
    try:
        job = await office.run(office.desk.control.edit, wanted, facts, revision=revision)
    except Refused as error:
        if type(error) is Refused:
            raise Changed(str(error)) from error
        raise
    office.observer.nudge()
    return shown(job)


def _tags(call: Call) -> set[int] | None:
    """The revisions that If-Match names; None: any will do."""
    said = call.headers.get(b"if-match", b"*").decode("latin-1")
    if said.strip() == "*":
        return None
    tags = [tag.strip() for tag in said.split(",")]
    quoted = [tag[1:-1] for tag in tags if len(tag) > 2 and tag[0] == tag[-1] == '"']
    return {revision for tag in quoted if (revision := read_number(tag)) is not None}


async def cancel(call: Call) -> Answer:
    """Cancel a job that has not started; ask a running one to stop."""
    job = await call.office.run(call.office.desk.control.cancel, job_id(call))
    call.office.observer.nudge()
    return shown(_cancelled(job))


def _cancelled(job: Job) -> Job:
    """As it is now; one that is not to be kept at all is gone already."""
    live = job.state in (State.QUEUED, State.WAITING)
    return msgspec.structs.replace(job, state=State.CANCELLED) if live else job


async def retry(call: Call) -> Answer:
    """Run an ended job afresh."""
    job = await call.office.run(call.office.desk.control.revive, job_id(call))
    call.office.observer.nudge()
    return shown(job)


async def delete(call: Call) -> Answer:
    """Remove all trace of a job that is not running."""
    await call.office.run(call.office.desk.control.delete, job_id(call))
    call.office.observer.nudge()
    return NOTHING


def _many(act: Callable[[Control, Iterable[int]], list[Result]]) -> Handler:
    async def handler(call: Call) -> Answer:
        ids: list[int] = call.body.ids
        results = await call.office.run(act, call.office.desk.control, ids)
        call.office.observer.nudge()
        return told(AllDone([done(*each) for each in zip(ids, results, strict=True)]))

    return handler


def done(wanted: int, result: Job | StokerError) -> Done:
    """What became of one job among many."""
    if isinstance(result, StokerError):
        return Done(wanted, None, result.code, str(result))
    return Done(wanted, state_name(result.state))


# -- what other operations need as well ----------------------------------------------------


def job_id(call: Call) -> int:
    """The id in the path."""
    wanted = read_number(call.path["id"])
    if wanted is None:
        raise NotFound(f"there is no job {call.path['id']}")
    return wanted


def patience(call: Call, said: wishes.Duration | None) -> float:
    """How many seconds to wait; longer than the server wants is shortened."""
    seconds = 0.0 if said is None else micros(said) / 1e6
    return min(seconds, call.office.settings.longest_wait)


def shown(job: Job) -> Answer:
    """One job, with its revision as its ETag."""
    return told(job_form(job), etag=f'"{job.revision}"')


_SEE: tuple[Scope, ...] = ("enqueue", "work", "operate")
_OPERATE: tuple[Scope, ...] = ("operate",)

OPERATIONS = [
    Operation(
        *("POST", "/v1/jobs", enqueue, "Enqueue one job"),
        scopes=("enqueue",),
        body=wishes.NewJob,
        answers={201: Placed, 200: Placed},
        problems=("duplicate",),
        once=True,
        short=Short(_plain, _there),
    ),
    Operation(
        *("GET", "/v1/jobs/{id:digits}", get_job, "One job, perhaps when it has ended"),
        scopes=_SEE,
        query=Look,
        answers={200: JobForm},
        problems=("not_found",),
    ),
    Operation(
        *("POST", "/v1/jobs/batch", enqueue_many, "Enqueue jobs all or none"),
        scopes=("enqueue",),
        body=wishes.NewJobs,
        answers={201: AllPlaced, 200: AllPlaced},
        problems=("duplicate",),
        once=True,
    ),
    Operation(
        *("GET", "/v1/jobs", list_jobs, "Jobs by their facts, a page at a time"),
        scopes=_OPERATE,
        query=Listing,
        answers={200: Page},
    ),
    Operation(
        *("PATCH", "/v1/jobs/{id:digits}", edit, "Change a job; If-Match guards it"),
        scopes=_OPERATE,
        body=wishes.Edit,
        answers={200: JobForm},
        problems=("not_found", "illegal_move", "changed"),
        headers={"If-Match": "The ETag of the job as you know it; else nothing is changed."},
        once=True,
    ),
    Operation(
        *("DELETE", "/v1/jobs/{id:digits}", delete),
        "Remove all trace of a job that is not running",
        scopes=_OPERATE,
        answers={204: None},
        problems=("not_found", "illegal_move"),
        once=True,
    ),
    Operation(
        *("POST", "/v1/jobs/{id:digits}/cancel", cancel, "Cancel a job, or ask it to stop"),
        scopes=_OPERATE,
        answers={200: JobForm},
        problems=("not_found", "illegal_move"),
        once=True,
    ),
    Operation(
        *("POST", "/v1/jobs/{id:digits}/retry", retry, "Run an ended job afresh"),
        scopes=_OPERATE,
        answers={200: JobForm},
        problems=("not_found", "illegal_move"),
        once=True,
    ),
    Operation(
        *("GET", "/v1/jobs/{id:digits}/explain", why, "Why a job does not run"),
        scopes=_SEE,
        answers={200: ExplanationForm},
        problems=("not_found",),
    ),
    *(
        Operation(
            *("POST", f"/v1/jobs/{verb}", _many(act), summary),
            scopes=_OPERATE,
            body=wishes.Ids,
            answers={200: AllDone},
            once=True,
        )
        for verb, act, summary in (
            ("cancel", Control.cancel_many, "Cancel jobs, each on its own"),
            ("retry", Control.revive_many, "Run ended jobs afresh, each on its own"),
            ("delete", Control.delete_many, "Remove jobs, each on its own"),
        )
    ),
]
