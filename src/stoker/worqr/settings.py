"""How a peer is set up: in its own words, by the environment, or by a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from stoker.errors import BadInput
from stoker.kernel.duration import UNITS, micros

_VARIABLES = "WORQR_"
_PERMANENT = 100 * 365 * UNITS["d"]
_INTERVALS = ("worker_heartbeat_interval", "worker_cleanup_interval", "debug_interval")


def _random_id() -> str:
    return str(uuid4())


class Settings(msgspec.Struct, frozen=True):
    """The options of a peer; times are in seconds.

    A worker whose timeout is negative is permanent: it never counts as dead by itself.

    >>> Settings(worker_timeout=-1).permanent
    True
    """

    prefix: str = "worqr"
    """The name space: peers with different ones do not see each other."""
    worker_id: str = msgspec.field(default_factory=_random_id)
    worker_heartbeat_interval: float = 1.0
    worker_timeout: float = 3.0
    """A worker that is silent for so long is dead."""
    worker_cleanup_interval: float = 10.0
    """How often this peer looks for dead workers, and for work of which it was not told."""
    debug_mode: bool = False
    debug_interval: float = 1.0

    def __post_init__(self) -> None:
        for name in ("prefix", "worker_id"):
            if not getattr(self, name):
                raise BadInput(f"{name} cannot be empty")
        for name in _INTERVALS:
            if micros(getattr(self, name)) < 1:
                raise BadInput(f"{name} must be more than 0 seconds")
        if self.worker_timeout == 0:
            raise BadInput("worker_timeout must be more than 0, or negative for no limit")
        if not self.permanent and self.worker_heartbeat_interval >= self.worker_timeout:
            raise BadInput("worker_heartbeat_interval must be shorter than worker_timeout")

    @property
    def permanent(self) -> bool:
        """Does the worker live until it is said to be dead?"""
        return self.worker_timeout < 0

    @property
    def ttl(self) -> int:
        """How long a heartbeat lasts, in microseconds."""
        return _PERMANENT if self.permanent else micros(self.worker_timeout)


def read_file(path: str | os.PathLike[str]) -> dict[str, str]:
    """The variables of an environment file: a NAME=value on each line, # before remarks."""
    variables = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.removeprefix("export ").partition("=")
        if not equals:
            raise BadInput(f"{path}, line {number}: write NAME=value, not {text!r}")
        variables[name.strip()] = _unquoted(value.strip())
    return variables


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]
    return text[1:-1] if quoted else text


def from_variables(variables: Mapping[str, str]) -> dict[str, Any]:
    """The options that variables such as WORQR_WORKER_TIMEOUT give."""
    fields = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    said = {
        name.removeprefix(_VARIABLES).lower(): value
        for name, value in variables.items()
        if name.startswith(_VARIABLES)
    }
    unknown = sorted(said.keys() - fields)
    if unknown:
        known = ", ".join(f"{_VARIABLES}{name.upper()}" for name in fields)
        raise BadInput(f"there is no {_VARIABLES}{unknown[0].upper()}; there are {known}")
    try:
        return {name: msgspec.convert(said[name], fields[name], strict=False) for name in said}
    except msgspec.ValidationError as error:
        raise BadInput(f"cannot read the {_VARIABLES} variables: {error}") from None
