"""Every answer that is no success: one table of status lines, word for word as clients know them.

A client looks at the number; people look at the words.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import BadInput, NotFound, Refused, Scattered, StokerError, StoreError


class Refusal(Refused):
    """A request that is answered with a status line other than 200."""

    def __init__(self, status: str, advice: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.advice = advice
        """What to do about it, for people; goes into the header `error`."""


NO_JOB_FOUND = "404 No job found"
NO_SUCH_JOB = "404 No job with this jobID"
NO_PARENT = "404 parentJobID does not exist"
OTHER_PARENT = (
    "404 Trying to create a child that already exists, but it is tied to a different parent"
)
HAS_CHILDREN = "404 Invalid jobID - Cannot cancel a job with children"

INVALID_JSON = "401 Invalid JSON"
UNAUTHORIZED = "401 Unauthorized"

MISSING_NAME = "402 Missing name"
MALFORMED_NAME = "402 Malformed name"
MISSING_JOB_ID = "402 Missing jobID"
MALFORMED_JOB_ID = "402 Malformed jobID"
MISSING_DATA = "402 Missing data"
MALFORMED_DATA = "402 Malformed data"
NO_OBJECT = "402 Data is not a valid JSON Object"
MISSING_COUNT = "402 Missing numResults"
COUNT_FOR_ONE = "402 Cannot use numResults with GetJob; try GetJobs"
INVALID_PRIORITY = "402 Invalid priority value"
MALFORMED_REPEAT = "402 Malformed repeat"
MALFORMED_RETRY_AFTER = "402 Malformed retryAfter"
RETRY_AFTER_WITH_REPEAT = "402 Cannot combine retryAfter with repeat"
RETRY_AFTER_WITH_UNIQUE = "402 Cannot combine retryAfter with unique"
RETRY_AFTER_WITH_TIMEOUT = "402 Cannot combine retryAfter with jobTimeout"
MALFORMED_FIRST_RUN = "402 Malformed firstRun"
MALFORMED_NEXT_RUN = "402 Malformed nextRun"
MALFORMED_DELAY = "402 Malformed delay"
NEGATIVE_DELAY = "402 Must specify a non-negative delay when retrying"
MALFORMED_TIMEOUT = "402 Malformed jobTimeout"
MALFORMED_ON_TIMEOUT = "402 Malformed onTimeout"
MISSING_QUERY = "402 Missing query"
BAD_QUERY = "402 Bad query"

NO_SUCH_PARENTHOOD = "405 Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED"
NO_GRANDCHILDREN = "405 Cannot create grandchildren"
NOT_RUNNING = "405 Can only retry/finish RUNNING and RUNQUEUED jobs"
PARENT_NOT_PAUSED = "405 Can only retry/finish child job when parent is PAUSED"
CANNOT_FAIL = "405 Can only fail RUNNING or RUNQUEUED jobs"
CANNOT_CANCEL = "405 Can only cancel QUEUED and PAUSED jobs"
CANNOT_DELETE_RUNNING = "405 Can't delete a RUNNING job"
CANNOT_DELETE_PAUSED = "405 Can't delete a parent jobs with children running"
WRONG_TOKEN = "405 The job was handed out again, this token is no longer its own"  # noqa: S105

BAD_REQUEST = "400 Bad request"
TOO_SLOW = "408 Request not finished in time"
TOO_LARGE = "413 Request too large"
UNKNOWN_COMMAND = "430 Unrecognized command"
MOCK_MISMATCH = "500 Mock Mismatch"
TROUBLE = "500 Internal Server Error"
NO_SEMICOLON = "502 Query Missing Semicolon"
TOO_BUSY = "503 Too busy, try again later"
TIMEOUT = "555 Timeout"
ABORTED = "556 Aborted"

# What the desk may say, where a command has no line of its own for it. The first that fits counts.
_BY_KIND: Mapping[type[StokerError], str] = {
    Scattered: "405 Not possible in one step with this store",
    BadInput: "402 Malformed attribute",
    NotFound: NO_SUCH_JOB,
    StoreError: TROUBLE,
    StokerError: "405 Not possible now",
}


def refusal_for(error: StokerError, lines: Mapping[type[StokerError], str]) -> Refusal:
    """The answer to what the desk said; `lines` are those of the command."""
    if isinstance(error, Refusal):
        return error
    for kind, status in [*lines.items(), *_BY_KIND.items()]:
        if isinstance(error, kind):
            return Refusal(status, str(error))
    raise error
