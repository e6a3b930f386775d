"""The table of commands: each a small function from a request to what is to be done."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from stoker import __version__
from stoker.desk import Desk
from stoker.doors.bedrock import changing, values, words
from stoker.doors.bedrock.creating import listed_jobs, new_job
from stoker.doors.bedrock.intents import Decide, Errand, Intent, Look, Place, Seek
from stoker.doors.bedrock.protocol import Reply, Request
from stoker.doors.bedrock.refusals import (
    COUNT_FOR_ONE,
    INVALID_JSON,
    MALFORMED_NAME,
    MISSING_COUNT,
    NO_PARENT,
    NO_SUCH_PARENTHOOD,
    TIMEOUT,
    UNAUTHORIZED,
    UNKNOWN_COMMAND,
    Refusal,
)
from stoker.errors import IllegalMove, NotFound
from stoker.kernel.glob import LONGEST_PATTERN, is_glob
from stoker.kernel.job import Job

_LONGEST_LIST = 12_750
_MOST_AT_ONCE = 1000
_PATIENCE_MS = 110_000
_LONGEST_PATIENCE_MS = 24 * 3600 * 1000
_MOCK_HEADERS = ("mockrequest", "getmockedjobs")
_WILDCARD = re.compile(r"[*?[]")
_PARENT_LINES = {NotFound: NO_PARENT, IllegalMove: NO_SUCH_PARENTHOOD}
_FAILED = "failed by its worker"

Question = Callable[[Desk, Request], Reply]


class Circumstances(NamedTuple):
    """What commands need to know besides the request."""

    desk: Desk
    tries: int | None
    """How often a job is given out at most before it has failed."""
    question: Question | None
    """Answers Query; None where the operator has not switched it on."""
    waiting: Callable[[], int] = lambda: 0
    """How many clients wait for jobs."""


Command = Callable[[Circumstances, Request], Intent]


def intent_of(around: Circumstances, request: Request) -> Intent:
    """What a request comes down to; raises a Refusal for what cannot be done."""
    command = COMMANDS.get(request.verb.removesuffix(":"))
    if command is None:
        raise Refusal(UNKNOWN_COMMAND)
    for limit in ("timeout", "processtimeout"):
        if limit in request.headers and values.integer(request.headers[limit]) <= 0:
            raise Refusal(TIMEOUT)
    return command(around, request)


# -- new jobs ------------------------------------------------------------------------------


def _create_job(around: Circumstances, request: Request) -> Intent:
    mocked = "mockrequest" in request.headers
    new = new_job(request.headers, mocked=mocked, tries=around.tries)
    if new.plain:
        return Place(new.draft(None))

    def run(desk: Desk) -> Reply:
        return created(desk.orders.place([new.order()])[0].id)

    return Errand(run, _PARENT_LINES)


def created(job_id: int) -> Reply:
    """The answer to CreateJob."""
    return Reply(body=b'{"jobID":%d}' % job_id, wrote=True)


def _create_jobs(around: Circumstances, request: Request) -> Intent:
    if not request.headers.get("jobs"):
        raise Refusal(INVALID_JSON, "give the jobs as a JSON array in the header `jobs`")
    mocked = "mockrequest" in request.headers
    given = listed_jobs(request.headers["jobs"])
    orders = [new_job(each, mocked=mocked, tries=around.tries).order() for each in given]

    def run(desk: Desk) -> Reply:
        ids = [placement.id for placement in desk.orders.place(orders)]
        return Reply(body=msgspec.json.encode({"jobIDs": ids}), wrote=True)

    return Errand(run, _PARENT_LINES)


# -- handing out ---------------------------------------------------------------------------


def _get_job(_: Circumstances, request: Request) -> Intent:
    if "numresults" in request.headers:
        values.name(request.headers.get("name", ""), _LONGEST_LIST)
        raise Refusal(COUNT_FOR_ONE)
    return _sought(request, 1, many=False)


def _get_jobs(_: Circumstances, request: Request) -> Intent:
    values.name(request.headers.get("name", ""), _LONGEST_LIST)
    if not request.headers.get("numresults"):
        raise Refusal(MISSING_COUNT)
    wanted = values.integer(request.headers["numresults"])
    return _sought(request, min(max(wanted, 1), _MOST_AT_ONCE), many=True)


def _sought(request: Request, wanted: int, *, many: bool) -> Seek:
    headers = request.headers
    patterns = _patterns(values.name(headers.get("name", ""), _LONGEST_LIST))
    mocks = (False, True) if any(name in headers for name in _MOCK_HEADERS) else (False,)
    queues = tuple(words.queue_of(each, mocked=mock) for mock in mocks for each in patterns)
    if any(is_glob(queue) and len(queue) > LONGEST_PATTERN for queue in queues):
        raise Refusal(MALFORMED_NAME, f"a pattern has at most {LONGEST_PATTERN} characters")
    priority = headers.get("jobpriority")
    rank = None if priority is None else words.rank_of(values.priority(priority))
    return Seek(queues, rank, wanted, many, _patience(headers))


def _patterns(name: str) -> list[str]:
    """One pattern; or several names, which are meant literally."""
    names = values.listed(name)
    if len(names) < 2:
        return [name]
    return [_WILDCARD.sub(r"[\g<0>]", each) for each in dict.fromkeys(names)]


def _patience(headers: values.Headers) -> float | None:
    if headers.get("connection", "").lower() != "wait":
        return None
    millis = values.integer(headers.get("timeout", str(_PATIENCE_MS)))
    return min(millis, _LONGEST_PATIENCE_MS) / 1000


def described(desk: Desk, job: Job) -> words.Fields:
    """A job that was handed out, with what its family has to say."""
    fields = words.handed_out(job)
    if job.parent_id is not None:
        parent = desk.store.get([job.parent_id]).get(job.parent_id)
        if parent is not None:
            fields |= {"parentJobID": parent.id, "parentData": words.data_of(parent)}
    children = desk.byhand.ended_children(job)
    if children:
        for state, name in (("FINISHED", "finishedChildJobs"), ("CANCELLED", "cancelledChildJobs")):
            fields[name] = [
                {"data": words.data_of(child), "jobID": child.id}
                for child in children
                if words.state_word(child) == state
            ]
    return fields


# -- one job by its id ---------------------------------------------------------------------


def _query_job(_: Circumstances, request: Request) -> Intent:
    return Look(
        values.job_id(request.headers),
        lambda job: Reply(body=words.encoded(words.as_it_is(job))),
    )


def _update_job(around: Circumstances, request: Request) -> Intent:
    job_id = values.job_id(request.headers)
    terms = changing.update_terms(request.headers, around.desk.store.now)
    return Decide(around.desk.byhand.amend(job_id, terms))


def _finish_job(around: Circumstances, request: Request) -> Intent:
    headers = request.headers
    job_id = values.job_id(headers)
    terms = changing.finish_terms(around.desk, headers)
    repeat = changing.repeats(headers)
    return Decide(around.desk.byhand.finish(job_id, terms, repeat=repeat, anyway=True))


def _retry_job(around: Circumstances, request: Request) -> Intent:
    headers = request.headers
    job_id = values.job_id(headers)
    terms = changing.retry_terms(around.desk, headers)
    at = changing.retry_time(headers, around.desk.store.now())
    repeat = changing.repeats(headers)
    return Decide(around.desk.byhand.retry(job_id, terms, at=at, repeat=repeat, anyway=True))


def _fail_job(around: Circumstances, request: Request) -> Intent:
    job_id = values.job_id(request.headers)
    terms = changing.fail_terms(request.headers)
    return Decide(around.desk.byhand.fail(job_id, terms, reason=_FAILED))


def _cancel_job(around: Circumstances, request: Request) -> Intent:
    job_id = values.job_id(request.headers)
    return Decide(around.desk.byhand.cancel(job_id, changing.cancel_terms))


def _delete_job(around: Circumstances, request: Request) -> Intent:
    job_id = values.job_id(request.headers)
    return Decide(around.desk.byhand.delete(job_id, changing.delete_terms))


def _requeue_jobs(_: Circumstances, request: Request) -> Intent:
    headers = request.headers
    ids = [values.integer(text) for text in values.listed(headers.get("jobids", ""))]
    new_name = headers.get("name", "")
    terms = changing.requeue_terms(values.name(new_name) if new_name else "")
    uncounted = values.flag(headers.get("decrementfailures", ""))

    def run(desk: Desk) -> Reply:
        requeue = partial(desk.byhand.requeue, terms=terms, uncounted=uncounted)
        desk.byhand.settle([requeue(job_id) for job_id in dict.fromkeys(ids)])
        return Reply(wrote=True)

    return Errand(run)


# -- the server itself ---------------------------------------------------------------------


def _ping(_: Circumstances, __: Request) -> Intent:
    return Reply()


def _status(around: Circumstances, _: Request) -> Intent:
    facts = {
        "isLeader": True,
        "plugins": [{"name": "Jobs", "version": __version__}],
        "state": "LEADING",
        "version": f"stoker {__version__}",
        "waiting": around.waiting(),
    }
    return Reply(body=msgspec.json.encode(facts))


def _query(around: Circumstances, request: Request) -> Intent:
    question = around.question
    if question is None:
        advice = "Query is switched off; the operator can start the server with --bedrock-query"
        raise Refusal(UNAUTHORIZED, advice)
    return Errand(lambda desk: question(desk, request))


COMMANDS: Mapping[str, Command] = {
    "createjob": _create_job,
    "createjobs": _create_jobs,
    "getjob": _get_job,
    "getjobs": _get_jobs,
    "queryjob": _query_job,
    "updatejob": _update_job,
    "finishjob": _finish_job,
    "retryjob": _retry_job,
    "failjob": _fail_job,
    "canceljob": _cancel_job,
    "deletejob": _delete_job,
    "requeuejobs": _requeue_jobs,
    "ping": _ping,
    "status": _status,
    "query": _query,
}
