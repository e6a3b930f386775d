"""Every answer that is no success: one table of codes, and how it is told (RFC 9457).

A program looks at `code`, people look at `detail` and `advice`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from stoker.errors import Duplicate, NotFound, StokerError

logger = logging.getLogger("stoker.http")


class Unauthorized(StokerError):
    """Nobody knows who asks."""

    code = "unauthorized"


class Forbidden(StokerError):
    """It is known who asks, and that he may not."""

    code = "forbidden"


class NoSuchRoute(NotFound):
    """Nothing is served here."""

    code = "no_such_route"


class NoSuchMethod(StokerError):
    """Something is served here, but not like this."""

    code = "no_such_method"


class Changed(StokerError):
    """If-Match named another revision than there is."""

    code = "changed"


class TooLarge(StokerError):
    """The body is larger than allowed."""

    code = "too_large"


class KeyReused(StokerError):
    """The idempotency key belongs to another request."""

    code = "key_reused"


class KeyInUse(StokerError):
    """The first request with this idempotency key has not been answered yet."""

    code = "key_in_use"


class AnswerNotKept(StokerError):
    """The request with this idempotency key was served, and its answer was too large to keep."""

    code = "answer_not_kept"


class TooMany(StokerError):
    """More requests than allowed."""

    code = "too_many"

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds
        """After which there is room again."""


class ClientGone(StokerError):
    """There is nobody to answer."""

    code = "client_gone"


class Kind(NamedTuple):
    """How one code is answered."""

    status: int
    title: str
    advice: str


AGAIN = "Try again in a moment."
KINDS: Mapping[str, Kind] = {
    "bad_input": Kind(400, "The request cannot be understood", "Correct it as `detail` says."),
    "scattered": Kind(
        400, "Not in one step with this store", "Ask for each on its own, as `detail` says."
    ),
    "unauthorized": Kind(
        401, "Who are you?", "Send the header `Authorization: Bearer TOKEN` with a valid token."
    ),
    "forbidden": Kind(
        403, "You may not do this", "Use a token that allows it, or ask the operator."
    ),
    "not_found": Kind(404, "There is no such thing", "Check the name or id; it may be forgotten."),
    "no_such_route": Kind(404, "Nothing is served here", "See /openapi.json for what is."),
    "no_such_method": Kind(405, "Not with this method", "Use one that the header Allow names."),
    "client_gone": Kind(408, "The client went away", AGAIN),
    "refused": Kind(409, "Not possible now", "Read the job again and see whether you still want."),
    "illegal_move": Kind(409, "The job's life does not allow it", "Look at the job's state."),
    "lease_lost": Kind(
        409, "The job is no longer yours", "Stop working on it; somebody else may have it."
    ),
    "session_lost": Kind(409, "The session is over", "Open a new one and claim under it."),
    "duplicate": Kind(
        409, "There is such a job already", 'Take `existing_id`, or say `if_exists`: "return".'
    ),
    "contended": Kind(409, "It keeps changing", AGAIN),
    "key_in_use": Kind(409, "The same request is being served", AGAIN),
    "answer_not_kept": Kind(
        409,
        "It was done, but the answer is lost",
        "Look at what there is now; use a new Idempotency-Key to ask once more.",
    ),
    "changed": Kind(412, "It has changed meanwhile", "Read it again and use its new ETag."),
    "too_large": Kind(413, "The request is too large", "Send less at a time."),
    "key_reused": Kind(
        422, "This key belongs to another request", "Use a new Idempotency-Key for each request."
    ),
    "too_many": Kind(429, "Too many requests", "Wait as long as Retry-After says."),
    "internal": Kind(500, "Something unexpected happened", "Look at the log of the server."),
    "store_error": Kind(503, "The store is in trouble", AGAIN),
    "store_unavailable": Kind(503, "The store cannot be reached", AGAIN),
    "store_locked": Kind(503, "The store is busy", AGAIN),
    "store_full": Kind(507, "The store has no room left", "Make room where the store is."),
    "store_read_only": Kind(503, "The store cannot be written", "Ask the operator."),
    "store_too_new": Kind(503, "The store is of a newer Stoker", "Update this server."),
    "store_moved": Kind(503, "The jobs have moved", "Ask the operator where to."),
    "store_corrupt": Kind(503, "The store is damaged", "Ask the operator; see `stoker check`."),
}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, why, and what to do about it."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    advice: str
    existing_id: int | None = None
    """The job that has the name already."""
    error: str | None = None
    """The same as `detail`, for clients of Jobber."""


def problem_of(error: BaseException) -> Problem:
    """What to tell about an error; what nobody expected goes to the log, not to the client."""
    code = error.code if isinstance(error, StokerError) else "internal"
    if code not in KINDS:
        code = "internal"
    kind = KINDS[code]
    known = code != "internal"
    if not known:
        logger.error("a request failed unexpectedly", exc_info=error)
    elif kind.status >= 500:
        logger.warning("a request failed: %s", error)
    return Problem(
        type=f"urn:stoker:problem:{code}",
        title=kind.title,
        status=kind.status,
        detail=str(error) if known else f"unexpected {type(error).__name__}",
        code=code,
        advice=kind.advice,
        existing_id=error.existing_id if isinstance(error, Duplicate) else None,
    )
