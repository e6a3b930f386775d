"""Between a function's arguments and a job's payload.

The payload is a JSON object with the parameters' names, so that any language can write it; a JSON
array is taken as positional arguments. What is written is read back with the function's own type
hints before the job is accepted: a job that could never run is refused at once.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Protocol, get_type_hints

import msgspec

from stoker.errors import BadInput
from stoker.kernel.job import Format
from stoker.worker.context import Context

Call = tuple[tuple[Any, ...], dict[str, Any]]

_FREE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Codec(Protocol):
    """How one task's arguments travel."""

    format: Format

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """The payload for a call; refuses arguments that do not fit."""

    def decode(self, payload: bytes) -> Call:
        """The call a payload stands for."""


class JsonCodec:
    """Arguments as JSON, checked and converted by the function's type hints."""

    format = Format.JSON

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._name = name
        self._signature, hints = _signature(function)
        fields: list[tuple[str, Any, Any]] = []
        for parameter in self._signature.parameters.values():
            hint = _hint(parameter, hints.get(parameter.name, Any))
            # A default is left to the function itself, so that changing it there is enough.
            needed = parameter.default is parameter.empty and parameter.kind not in _FREE
            kind = hint if needed else hint | msgspec.UnsetType
            fields.append((parameter.name, kind, msgspec.NODEFAULT if needed else msgspec.UNSET))
        try:
            self._type = msgspec.defstruct(
                f"Arguments_{function.__name__}",
                fields,
                kw_only=True,
                forbid_unknown_fields=True,
            )
            self._read = msgspec.json.Decoder(self._type).decode
        except TypeError as error:
            raise BadInput(
                f"the task {name!r} has a parameter that cannot travel as JSON: {error}"
            ) from error
        self._by_name = all(
            p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            for p in self._signature.parameters.values()
        )
        self._empty = not fields

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        try:
            given = self._signature.bind(*args, **kwargs).arguments
            payload = msgspec.json.encode(given)
        except TypeError as error:
            raise BadInput(
                f"the task {self._name!r} cannot be called like this: {error}"
            ) from error
        self._check(payload)
        return payload

    def _check(self, payload: bytes) -> Any:
        try:
            return self._read(payload)
        except msgspec.MsgspecError as error:
            raise BadInput(f"the arguments do not fit the task {self._name!r}: {error}") from error

    def decode(self, payload: bytes) -> Call:
        if self._empty and payload in (b"{}", b"null", b"[]"):
            return (), {}
        if payload.lstrip()[:1] == b"[":
            payload = self._named(payload)
        given = self._check(payload)
        values = {
            name: getattr(given, name)
            for name in self._type.__struct_fields__
            if getattr(given, name) is not msgspec.UNSET
        }
        if self._by_name:
            return (), values
        bound = inspect.BoundArguments(self._signature, OrderedDict(values))
        return bound.args, bound.kwargs

    def _named(self, payload: bytes) -> bytes:
        try:
            return self.encode(tuple(msgspec.json.decode(payload)), {})
        except msgspec.MsgspecError as error:
            raise BadInput(f"the payload is no JSON: {error}") from error


class RawCodec:
    """One argument, bytes or text, that travels as it is."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        signature, hints = _signature(function)
        names = list(signature.parameters)
        kind = hints.get(names[0]) if len(names) == 1 else None
        if kind not in (bytes, str):
            raise BadInput(
                f"the raw task {name!r} must take exactly one parameter, hinted as bytes or str"
            )
        self._name = name
        self._kind = kind
        self.format = Format.BYTES if kind is bytes else Format.TEXT

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        given = [*args, *kwargs.values()]
        if len(given) != 1 or not isinstance(given[0], self._kind):
            raise BadInput(f"the raw task {self._name!r} takes one {self._kind.__name__}")
        content = given[0]
        return content if isinstance(content, bytes) else str(content).encode()

    def decode(self, payload: bytes) -> Call:
        if self._kind is bytes:
            return (payload,), {}
        try:
            return (payload.decode(),), {}
        except UnicodeDecodeError as error:
            raise BadInput(f"the task {self._name!r} takes text, not bytes: {error}") from error


def context_parameter(function: Callable[..., Any]) -> str | None:
    """The parameter through which the function wants to see its Context, if it has one."""
    hints = _hints(function)
    return next((name for name, hint in hints.items() if hint is Context), None)


def _signature(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    hidden = context_parameter(function)
    signature = inspect.signature(function)
    kept = [p for p in signature.parameters.values() if p.name != hidden]
    return signature.replace(parameters=kept), _hints(function)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise BadInput(
            f"a type hint of {function.__qualname__} cannot be resolved: {error}; "
            "import the type where the function is defined, not only while type checking"
        ) from error


def _hint(parameter: inspect.Parameter, hint: Any) -> Any:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return list[hint]
    return dict[str, hint] if parameter.kind is parameter.VAR_KEYWORD else hint
