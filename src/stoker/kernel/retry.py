"""Whether a failed job gets another try, and when: retry policies as values.

A policy is data, so any process can act on it. `limit` is always the number of *retries*, the
tries after the first: `exponential(5)` gives up after the 6th failure, and None never gives up.
Only `Custom` needs code: it names a handler that a process may or may not have at hand.

How people write policies is in `kernel.retry_forms`.
"""

# ruff: noqa: ARG002 - all policies answer the same question, also those that need to know less.

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from reprlib import repr as short_repr
from typing import Any, TypeAlias

import msgspec

from stoker.errors import BadInput
from stoker.kernel import duration
from stoker.kernel.duration import micros
from stoker.kernel.ranges import HIGHEST_RANK, check_range
from stoker.kernel.zones import check_moment

LARGEST_LIMIT = 1_000_000_000

Duration: TypeAlias = str | float | timedelta


# --- What went wrong ---------------------------------------------------------------------------


class Failure(msgspec.Struct, frozen=True):
    """Why a try failed, as a value that outlives the process it happened in.

    `kinds` are the qualified names of the error's type and of the types it derives from, the most
    specific first. `timeout`: the try ran too long. `lost`: its worker was never heard of again.

    >>> Failure(("HTTP 429",), "too many requests").timeout
    False
    """

    kinds: tuple[str, ...]
    message: str
    timeout: bool = False
    lost: bool = False


def failure_of(error: BaseException) -> Failure:
    """The failure that an exception stands for.

    >>> failure = failure_of(ConnectionError("the server hung up"))
    >>> failure.kinds[0], failure.message
    ('builtins.ConnectionError', 'the server hung up')
    """
    types = [cls for cls in type(error).__mro__ if cls is not object]
    return Failure(tuple(qualified(cls) for cls in types), _message(error))


def qualified(cls: type) -> str:
    """A class's name with its module, as it appears in `Failure.kinds`."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide that the job failed
        return "an error that cannot be shown"
    # Lone surrogates, as in undecodable file names, could not be stored.
    return said.encode("utf-8", "backslashreplace").decode("utf-8")


# --- Policies ----------------------------------------------------------------------------------
#
# delay(failures, dice): the microseconds until the next try, None to give up. `failures` counts
# the failed tries, 1 after the first; `dice` is the caller's throw, at least 0 and below 1.


class _Policy(msgspec.Struct, frozen=True, tag_field="kind", tag=str.lower):
    pass


class Never(_Policy, frozen=True):
    """The first failure is final."""

    def delay(self, failures: int, dice: float) -> int | None:
        """Always None."""
        return None

    def __str__(self) -> str:
        return "never"


class Fixed(_Policy, frozen=True):
    """`limit` retries, one every so many microseconds."""

    every: int
    limit: int | None

    def __post_init__(self) -> None:
        _check_delay("the delay", self.every)
        _check_limit(self.limit)

    def delay(self, failures: int, dice: float) -> int | None:
        """The same delay each time, until the limit is reached."""
        return None if _spent(self.limit, failures) else self.every

    def __str__(self) -> str:
        return f"fixed {duration.text(self.every)}{_times(self.limit)}"


class Linear(_Policy, frozen=True):
    """`limit` retries; the first delay, then a step more each time, up to the cap."""

    first: int
    step: int
    cap: int
    limit: int | None

    def __post_init__(self) -> None:
        _check_delay("the first delay", self.first)
        _check_delay("the step", self.step)
        _check_cap(self.cap, self.first)
        _check_limit(self.limit)

    def delay(self, failures: int, dice: float) -> int | None:
        """Grows by the step each time, until the limit is reached."""
        if _spent(self.limit, failures):
            return None
        return min(self.cap, self.first + self.step * (failures - 1))

    def __str__(self) -> str:
        first, step, cap = (duration.text(each) for each in (self.first, self.step, self.cap))
        return f"linear {first} +{step} cap {cap}{_times(self.limit)}"


class Exponential(_Policy, frozen=True):
    """`limit` retries; the delay grows by a factor each time, up to the cap.

    Jitter is the share of each delay that the dice may take away, so that jobs which failed
    together do not all come back together. It only shortens: the cap holds.
    """

    limit: int | None
    base: int
    factor: float
    cap: int
    jitter: float

    def __post_init__(self) -> None:
        _check_limit(self.limit)
        _check_delay("the base", self.base, least=1)
        check_range("the factor", self.factor, 1, 1e9)
        _check_cap(self.cap, self.base)
        check_range("the jitter", self.jitter, 0, 1)

    def delay(self, failures: int, dice: float) -> int | None:
        """Grows by the factor each time, less the jitter, until the limit is reached."""
        if _spent(self.limit, failures):
            return None
        try:
            grown = self.base * float(self.factor) ** (failures - 1)
        except OverflowError:
            grown = math.inf
        full = int(min(self.cap, grown))
        return full - int(full * self.jitter * dice)

    def __str__(self) -> str:
        base, cap = duration.text(self.base), duration.text(self.cap)
        factor, jitter = _number_text(self.factor), _number_text(self.jitter)
        return f"exponential {base} *{factor} cap {cap} jitter {jitter}{_times(self.limit)}"


class Listed(_Policy, frozen=True):
    """One retry for each delay in the list."""

    delays: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.delays:
            raise BadInput("a list of delays needs at least one; say never for no retry at all")
        for each in self.delays:
            _check_delay("each delay", each)

    def delay(self, failures: int, dice: float) -> int | None:
        """The next delay in the list; None at its end."""
        return None if _spent(len(self.delays), failures) else self.delays[failures - 1]

    def __str__(self) -> str:
        return " ".join(["list", *(duration.text(each) for each in self.delays)])


class Custom(_Policy, frozen=True):
    """A handler decides: code known by this name in the processes that have it."""

    name: str

    def __post_init__(self) -> None:
        _check_name("a retry handler", self.name)

    def __str__(self) -> str:
        return f"custom {self.name}"


class ByError(_Policy, frozen=True, tag="by_error"):
    """The first rule whose error name matches chooses the policy.

    A name matches the error's type and every type it derives from. `Timeout` means a class of
    that name anywhere, `requests.Timeout` one in the package `requests`, however deep: people
    know an error by where they import it from, not by the module it is written in.
    """

    rules: tuple[tuple[str, RetryPolicy], ...]
    otherwise: RetryPolicy

    def __post_init__(self) -> None:
        if not self.rules:
            raise BadInput("by_error needs at least one rule; without any, use `otherwise` alone")
        for name, policy in self.rules:
            _check_name("an error", name)
            _check_policy(policy)
        _check_policy(self.otherwise)

    def chosen(self, failure: Failure) -> RetryPolicy:
        """The policy for this failure."""
        for name, policy in self.rules:
            if any(_names(name, kind) for kind in failure.kinds):
                return policy
        return self.otherwise


RetryPolicy: TypeAlias = Never | Fixed | Linear | Exponential | Listed | ByError | Custom


def _spent(limit: int | None, failures: int) -> bool:
    return limit is not None and failures > limit


def _names(name: str, kind: str) -> bool:
    package, _, wanted = name.rpartition(".")
    module, _, cls = kind.rpartition(".")
    return wanted == cls and (not package or f"{module}.".startswith(f"{package}."))


# --- Verdicts ----------------------------------------------------------------------------------


class Again(msgspec.Struct, frozen=True, tag=True):
    """Try again at this time; with another payload, rank or meta, if given.

    >>> def handler(job, failure):
    ...     return Again(at=90_000_000, payload=b'{"page": 2}')
    >>> consult(handler, None, Failure((), "busy"), now=0).payload
    b'{"page": 2}'
    """

    at: int
    payload: bytes | None = None
    rank: int | None = None
    meta: str | None = None

    def __post_init__(self) -> None:
        check_moment(self.at)
        if self.rank is not None:
            check_range("rank", self.rank, -HIGHEST_RANK, HIGHEST_RANK, whole=True)


class GiveUp(msgspec.Struct, frozen=True, tag=True):
    """The job has failed for good; the reason, if given, replaces the failure's message.

    >>> def handler(job, failure):
    ...     return GiveUp("their service is gone")
    >>> consult(handler, None, Failure((), "no answer"), now=0).reason
    'their service is gone'
    """

    reason: str | None = None


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Only the handler of this name can tell, and it is not here."""

    name: str


Verdict: TypeAlias = Again | GiveUp | Ask


def decide(
    policy: RetryPolicy, *, failures: int, failure: Failure, now: int, dice: float
) -> Verdict:
    """What follows from a failure, as far as values can tell."""
    while isinstance(policy, ByError):
        policy = policy.chosen(failure)
    if isinstance(policy, Custom):
        return Ask(policy.name)
    # Something has just failed, so the count is never less than one.
    delay = policy.delay(max(1, failures), dice)
    return GiveUp() if delay is None else Again(now + delay)


def consult(
    handler: Callable[[Any, Failure], object], job: object, failure: Failure, now: int
) -> Verdict:
    """What a retry handler says to a failure.

    It may return None or False (give up), True (again at once), a delay in seconds or as a
    timedelta, an `Again` or a `GiveUp`. A handler that raises or returns anything else has given
    up the job, and the reason tells of both errors.
    """
    try:
        answer = handler(job, failure)
    except Exception as error:  # noqa: BLE001 - a handler may raise anything; the job must move on
        return _blame(failure, f"raised {type(error).__name__}: {_message(error)}")
    if isinstance(answer, Again | GiveUp):
        return answer
    if answer is None or isinstance(answer, bool):
        return Again(now) if answer else GiveUp()
    if not isinstance(answer, int | float | timedelta):
        return _blame(failure, f"returned {short_repr(answer)}, which is no verdict")
    try:
        return Again(now + micros(answer))
    except BadInput as error:
        return _blame(failure, f"returned a bad delay: {error}")


def _blame(failure: Failure, fault: str) -> GiveUp:
    return GiveUp(f"{failure.message} (given up, for the retry handler {fault})")


def _times(limit: int | None) -> str:
    return "" if limit is None else f" x{limit}"


def _number_text(number: float) -> str:
    return repr(float(number)).removesuffix(".0")


# --- What a policy may hold --------------------------------------------------------------------


def _check_delay(what: str, value: object, least: int = 0) -> None:
    check_range(f"{what} (whole microseconds)", value, least, duration.LONGEST, whole=True)


def _check_cap(cap: int, first: int) -> None:
    _check_delay("the cap", cap)
    if cap < first:
        raise BadInput(
            f"the cap of {duration.text(cap)} is below the first delay of "
            f"{duration.text(first)}; raise the cap"
        )


def _check_limit(limit: object) -> None:
    if limit is not None:
        check_range("the limit (None: no limit)", limit, 0, LARGEST_LIMIT, whole=True)


def _check_name(of: str, name: object) -> None:
    if not isinstance(name, str) or not name or not name.isprintable() or " " in name:
        raise BadInput(f"the name of {of} must be printable text without spaces, not {name!r}")


def _check_policy(policy: object) -> None:
    if not isinstance(policy, _Policy):
        raise BadInput(f"by_error needs retry policies, such as fixed('10s'), not {policy!r}")
