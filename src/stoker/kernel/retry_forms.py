"""How people write retry policies: as Python calls, or as text.

    never                                       no retry at all
    fixed 10s x3                                the same delay before each retry
    linear 5s +5s cap 1m x10                    5 s, 10 s, 15 s ... up to a minute
    exponential 1s *2 cap 1h jitter 0.5 x5      1 s, 2 s, 4 s ... each shortened by up to half
    list 1s 10s 1m                              one retry for each delay
    custom name                                 whatever the handler of that name says

Without `x` the retries never end. What `by_error` makes has no text, only JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stoker.errors import BadInput
from stoker.kernel.duration import micros
from stoker.kernel.retry import (
    ByError,
    Custom,
    Duration,
    Exponential,
    Fixed,
    Linear,
    Listed,
    Never,
    RetryPolicy,
    qualified,
)


def never() -> Never:
    """No retry at all.

    >>> str(never())
    'never'
    """
    return Never()


def fixed(delay: Duration, *, limit: int | None = None) -> Fixed:
    """The same delay before each of `limit` retries.

    >>> str(fixed("10s", limit=3))
    'fixed 10s x3'
    """
    return Fixed(micros(delay), limit)


def linear(
    first: Duration, *, step: Duration, cap: Duration = "1h", limit: int | None = None
) -> Linear:
    """A delay that grows by `step` each time, up to `cap`.

    >>> [linear("5s", step="10s").delay(failures, 0) // 1_000_000 for failures in (1, 2, 3)]
    [5, 15, 25]
    """
    return Linear(micros(first), micros(step), micros(cap), limit)


def exponential(
    limit: int | None = None,
    *,
    base: Duration = "1s",
    factor: float = 2.0,
    cap: Duration = "1h",
    jitter: float = 0.5,
) -> Exponential:
    """A delay that grows by `factor` each time: `exponential(5)` gives up after the 6th failure.

    >>> str(exponential(5))
    'exponential 1s *2 cap 1h jitter 0.5 x5'
    """
    return Exponential(limit, micros(base), factor, micros(cap), jitter)


def listed(*delays: Duration) -> Listed:
    """One retry for each delay.

    >>> str(listed("1s", "10s", "1m"))
    'list 1s 10s 1m'
    """
    return Listed(tuple(micros(delay) for delay in delays))


def by_error(
    rules: Mapping[type[BaseException] | str, RetryPolicy], *, otherwise: RetryPolicy
) -> ByError:
    """A policy for each kind of error, given as a class or by name; the first that matches.

    >>> policy = by_error({OSError: fixed("10s"), "requests.Timeout": never()}, otherwise=never())
    >>> [name for name, _ in policy.rules]
    ['builtins.OSError', 'requests.Timeout']
    """
    named = [qualified(key) if isinstance(key, type) else key for key in rules]
    return ByError(tuple(zip(named, rules.values(), strict=True)), otherwise)


def custom(name: str) -> Custom:
    """Whatever the retry handler registered under this name says.

    >>> str(custom("patient"))
    'custom patient'
    """
    return Custom(name)


# --- Policies as text --------------------------------------------------------------------------


class _Form(NamedTuple):
    example: str
    pattern: re.Pattern[str]
    build: Callable[..., RetryPolicy]


_LIMIT = r"(?: x(?P<limit>[0-9]{1,10}))?"
_CAP = r"(?: cap (?P<cap>\S+))?"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
_NUMBER_OF = {"limit": int, "factor": float, "jitter": float}

_FORMS = {
    "never": _Form("never", re.compile("never"), never),
    "fixed": _Form("fixed 10s x3", re.compile(rf"fixed (?P<delay>\S+){_LIMIT}"), fixed),
    "linear": _Form(
        "linear 5s +5s cap 1m x10",
        re.compile(rf"linear (?P<first>\S+) \+(?P<step>\S+){_CAP}{_LIMIT}"),
        linear,
    ),
    "exponential": _Form(
        "exponential 1s *2 cap 1h jitter 0.5 x5",
        re.compile(
            rf"exponential (?P<base>\S+)(?: \*(?P<factor>{_NUMBER}))?{_CAP}"
            rf"(?: jitter (?P<jitter>{_NUMBER}))?{_LIMIT}"
        ),
        exponential,
    ),
    "list": _Form(
        "list 1s 10s 1m",
        re.compile(r"list (?P<delays>\S+(?: \S+)*)"),
        lambda delays: listed(*delays.split()),
    ),
    "custom": _Form("custom name", re.compile(r"custom (?P<name>\S+)"), custom),
}


def parse_retry(text: str) -> RetryPolicy:
    """The policy a text stands for, such as `exponential 1s *2 cap 1h jitter 0.5 x5`."""
    words = " ".join(text.split())
    form = _FORMS.get(words.partition(" ")[0])
    if form is None:
        examples = ", ".join(f"`{form.example}`" for form in _FORMS.values())
        raise BadInput(f"unknown retry policy {text!r}; write one of {examples}")
    found = form.pattern.fullmatch(words)
    if found is None:
        raise BadInput(f"cannot read the retry policy {text!r}; write it like `{form.example}`")
    given = {name: said for name, said in found.groupdict().items() if said is not None}
    return form.build(**{name: _NUMBER_OF.get(name, str)(said) for name, said in given.items()})


def chosen_retry(said: object) -> RetryPolicy | Callable[..., Any]:
    """What was given as `retry=`: a policy, one as text, or a function that decides.

    >>> str(chosen_retry("fixed 10s x3")), str(chosen_retry(None))
    ('fixed 10s x3', 'never')
    """
    if said is None:
        return never()
    chosen = parse_retry(said) if isinstance(said, str) else said
    if isinstance(chosen, Custom):
        raise BadInput("retry= takes your retry handler itself, not its name by custom()")
    if isinstance(chosen, RetryPolicy) or callable(chosen):
        return chosen
    raise BadInput("retry= takes a policy such as exponential(5), its text, or a callable")


def retry_text(policy: RetryPolicy) -> str:
    """The canonical text of a policy, which `parse_retry` reads back as the same policy."""
    if isinstance(policy, ByError):
        raise BadInput("a retry policy chosen by error has no text; send it as JSON instead")
    return str(policy)
