"""What may be said about a job: refused here, in words, before a store has to choke on it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import asdict, astuple

from stoker.errors import BadInput
from stoker.kernel.amount import MOST
from stoker.kernel.job import WHOLE_WEIGHT, Format, Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.ranges import HIGHEST_RANK, check_range
from stoker.kernel.zones import END, FIRST

HEAVIEST = MOST * WHOLE_WEIGHT

_NUMBERS = {
    "rank": (-HIGHEST_RANK, HIGHEST_RANK),
    "weight": (0, HEAVIEST),
    "due_at": (FIRST, END - 1),
}
_TEXTS = frozenset({"queue", "name", "key", "unique_key", "ref", "meta"})
_MAY_BE_EMPTY = frozenset({"name", "meta"})
_NEEDED = frozenset({"queue", "name"})
_KINDS: Mapping[str, type] = {"payload": bytes, "format": Format, "policy": Policy}
_STAMPS = frozenset({"created_at", "scheduled_at"})  # set anew for every job, whatever they were

_QUEUED = State.QUEUED
_BLANK = Job("")
_LIFE = Job.__struct_fields__.index("parent_id")
_UNBORN = astuple(_BLANK)[_LIFE:]


def check_new(job: Job) -> None:
    """Refuse a job that no store could keep, or that seems to have lived already."""
    if _looks_usual(job) and astuple(job)[_LIFE:] == _UNBORN:
        return  # most do, and the long way costs as much as storing the job
    facts = asdict(job)
    check({fact: facts.pop(fact) for fact in (*_NUMBERS, *_TEXTS, *_KINDS)})
    lived = [name for name in facts.keys() - _STAMPS if facts[name] != getattr(_BLANK, name)]
    if lived:
        raise BadInput(
            f"a new job cannot have {', '.join(sorted(lived))}: say only what it is about; "
            "children are made with spawn, and an ended job runs again with revive"
        )


def _looks_usual(job: Job) -> bool:
    return (
        type(job.payload) is bytes
        and type(job.rank) is type(job.weight) is type(job.due_at) is int
        and -HIGHEST_RANK <= job.rank <= HIGHEST_RANK
        and 0 <= job.weight <= HEAVIEST
        and 0 <= job.due_at < END
        and type(job.format) is Format
        and type(job.policy) is Policy
        and not job.id
        and job.state is _QUEUED
        and type(job.queue) is type(job.name) is str
        and job.queue != ""
        and job.queue.isascii()
        and job.name.isascii()
        and (job.key is None or _is_usual_name(job.key))
        and (job.unique_key is None or _is_usual_name(job.unique_key))
        and (job.ref is None or _is_usual_name(job.ref))
        and (job.meta is None or (type(job.meta) is str and job.meta.isascii()))
    )


def _is_usual_name(text: str) -> bool:
    return type(text) is str and text.isascii() and text != ""


def check(facts: Mapping[str, object]) -> None:
    """Refuse facts that no store could keep."""
    for name, value in facts.items():
        if name in _NUMBERS:
            check_range(name, value, *_NUMBERS[name], whole=True)
        elif name in _TEXTS:
            if value is not None or name in _NEEDED:
                (check_text if name in _MAY_BE_EMPTY else check_name)(name, value)
        elif not isinstance(value, _KINDS[name]):
            kind = _KINDS[name].__name__
            raise BadInput(f"{name} must be {kind}, not {type(value).__name__}")


def check_name(name: str, value: object) -> None:
    """The same for a text by which somebody or something is known.

    >>> check_name("key", "")
    Traceback (most recent call last):
    stoker.errors.BadInput: key cannot be empty; give a text, or leave it out altogether
    """
    check_text(name, value)
    if not value:
        raise BadInput(f"{name} cannot be empty; give a text, or leave it out altogether")


def check_text(name: str, value: object) -> None:
    """Refuse what is no text, or one that no store could keep."""
    if not isinstance(value, str):
        raise BadInput(f"{name} must be text, not {type(value).__name__}")
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"{name} holds half a character (a lone surrogate), which cannot be stored; take it out"
        ) from None
