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
from stoker.kernel.in_json import encoded
from stoker.kernel.job import Format
from stoker.worker.context import Context

Call = tuple[tuple[Any, ...], dict[str, Any]]

_FREE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_CONTEXTS = (Context, Context | None)
_NEVER_NULL = (str, int, bool, bytes)
"""Hints that leave no room for null, as which infinity would be written: it is refused with it."""
_ENCODE = msgspec.json.Encoder().encode


class Codec(Protocol):
    """How one task's arguments travel."""

    format: Format

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """The payload for a call; refuses arguments that do not fit."""

    def encode_but(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], gap: object
    ) -> tuple[bytes, str]:
        """The payload for a call of which one argument is still to come, where `gap` stands; and
        that argument's name."""

    def decode(self, payload: bytes) -> Call:
        """The call a payload stands for."""


class JsonCodec:
    """Arguments as JSON, checked and converted by the function's type hints."""

    format = Format.JSON

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._name = name
        self._signature, hints = _signature(function)
        parameters = self._signature.parameters.values()
        self._by_place = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        self._by_name = all(p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters)
        fields: list[tuple[str, Any, Any]] = []
        self._write: Callable[[object], bytes] = _ENCODE
        for parameter in parameters:
            hint = _hint(parameter, hints.get(parameter.name, Any))
            if not any(hint is kind for kind in _NEVER_NULL):  # some hints cannot be compared
                self._write = encoded
            # A default is left to the function itself, so that changing it there is enough.
            needed = parameter.default is parameter.empty and parameter.kind not in _FREE
            kind = hint if needed else hint | msgspec.UnsetType
            fields.append((parameter.name, kind, msgspec.NODEFAULT if needed else msgspec.UNSET))
        try:
            self._type = msgspec.defstruct(
                f"Arguments_{function.__name__}",
                fields,
                kw_only=not self._by_place,
                forbid_unknown_fields=True,
            )
            self._read = msgspec.json.Decoder(self._type).decode
        except (TypeError, NameError) as error:
            raise BadInput(
                f"the task {name!r} has a parameter that cannot travel as JSON: {error}"
            ) from error
        self._all_needed = all(default is msgspec.NODEFAULT for _, _, default in fields)
        self._empty = not fields

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        try:
            given = self._type(*args, **kwargs) if self._by_place else self._named(args, kwargs)
            payload = self._write(given)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._refusal(args, kwargs, error) from error
        try:
            self._check(payload)
        except BadInput:
            self._look_for_infinity(args, kwargs)
            raise
        return payload

    def _look_for_infinity(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """It was written as null where no hint has room for that: say what was given instead."""
        named = self._named(args, kwargs)
        try:
            encoded(named)
        except ValueError as error:
            raise self._unfit(named, error) from error

    def encode_but(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], gap: object
    ) -> tuple[bytes, str]:
        try:
            named = self._named(args, kwargs)
        except TypeError as error:
            raise self._refusal(args, kwargs, error) from error
        gaps = [name for name, value in named.items() if value is gap]
        if len(gaps) != 1:
            raise BadInput(
                f"one argument of the task {self._name!r} can be the result of the step before, "
                f"given by itself; here are {len(gaps)}"
            )
        rest = {name: value for name, value in named.items() if value is not gap}
        try:
            payload = encoded(rest)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._unfit(rest, error) from error
        for name, value in rest.items():
            self._check_one(name, value)
        return payload, gaps[0]

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments by the names of their parameters."""
        return self._signature.bind(*args, **kwargs).arguments

    def _check_one(self, name: str, value: object) -> None:
        kinds = {field.name: field.type for field in msgspec.structs.fields(self._type)}
        try:
            msgspec.json.decode(encoded(value), type=kinds[name])
        except msgspec.MsgspecError as error:
            raise BadInput(
                f"the argument {name!r} does not fit the task {self._name!r}: {error}"
            ) from error

    def _refusal(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception
    ) -> BadInput:
        """What is wrong with a call: that it is none, or one of its values."""
        try:
            return self._unfit(self._named(args, kwargs), error)
        except TypeError as misfit:
            return BadInput(f"the task {self._name!r} cannot be called like this: {misfit}")

    def _unfit(self, named: Mapping[str, Any], error: Exception) -> BadInput:
        culprit = _culprit(named)
        return BadInput(f"{culprit} of the task {self._name!r} cannot travel as JSON: {error}")

    def _check(self, payload: bytes) -> Any:
        try:
            return self._read(payload)
        except msgspec.MsgspecError as error:
            raise BadInput(f"the arguments do not fit the task {self._name!r}: {error}") from error

    def decode(self, payload: bytes) -> Call:
        if payload == b"null":
            payload = b"{}"  # what a job carries of which nobody said anything
        if self._empty and payload == b"{}":
            return (), {}
        if payload.lstrip()[:1] == b"[":
            payload = self._from_list(payload)
        given = self._check(payload)
        values = msgspec.structs.asdict(given)
        if not self._all_needed:
            values = {name: value for name, value in values.items() if value is not msgspec.UNSET}
        if self._by_name:
            return (), values
        bound = inspect.BoundArguments(self._signature, OrderedDict(values))
        bound.apply_defaults()  # else what comes behind a gap would lose its place
        return bound.args, bound.kwargs

    def _from_list(self, payload: bytes) -> bytes:
        try:
            return self.encode(tuple(msgspec.json.decode(payload)), {})
        except msgspec.MsgspecError as error:
            raise BadInput(f"the payload is no JSON: {error}") from error


def _culprit(named: Mapping[str, Any]) -> str:
    """The first argument that JSON has no form for."""
    for name, value in named.items():
        try:
            encoded(value)
        except (TypeError, ValueError, RecursionError):
            return f"the argument {name!r}"
    return "the arguments"


class RawCodec:
    """One argument, bytes or text, that travels as it is."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._signature, hints = _signature(function)
        parameters = [p for p in self._signature.parameters.values() if p.kind not in _FREE]
        kinds = [hints.get(name) for name in self._signature.parameters]
        if len(parameters) != 1 or kinds not in ([bytes], [str]):
            raise BadInput(
                f"the raw task {name!r} must take exactly one parameter, hinted as bytes or str"
            )
        self._name = name
        (self._kind,) = kinds
        (self._parameter,) = parameters
        self.format = Format.BYTES if self._kind is bytes else Format.TEXT

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        try:
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            (content,) = bound.arguments.values()
            if isinstance(content, self._kind):
                return content if isinstance(content, bytes) else str(content).encode()
        except (TypeError, ValueError) as error:
            raise BadInput(f"the raw task {self._name!r} cannot take this: {error}") from error
        raise BadInput(
            f"the raw task {self._name!r} takes one {self._kind.__name__}, "
            f"not {type(content).__name__}"
        )

    def encode_but(self, *_: object) -> tuple[bytes, str]:
        raise BadInput(
            f"the raw task {self._name!r} cannot take the result of the step before, which is JSON"
        )

    def decode(self, payload: bytes) -> Call:
        try:
            content = payload if self._kind is bytes else payload.decode()
        except UnicodeDecodeError as error:
            raise BadInput(f"the task {self._name!r} takes text, not bytes: {error}") from error
        if self._parameter.kind is self._parameter.POSITIONAL_ONLY:
            return (content,), {}
        return (), {self._parameter.name: content}


def context_parameter(function: Callable[..., Any]) -> str | None:
    """The parameter through which the function wants to see its Context, if it has one."""
    hints = _hints(function)
    hints.pop("return", None)
    return next((name for name, hint in hints.items() if hint in _CONTEXTS), None)


def _signature(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    hidden = context_parameter(function)
    try:
        signature = inspect.signature(function)
    except ValueError as error:
        raise BadInput(f"{error}: wrap it in a function of your own to make it a task") from error
    parameters = signature.parameters.values()
    by_place = any(p.kind in _BY_PLACE for p in parameters)
    if by_place and any(p.name == hidden and p.kind is not p.KEYWORD_ONLY for p in parameters):
        raise BadInput(
            f"{function.__qualname__} takes arguments by their place, so its {hidden!r} must be "
            "keyword-only: put it last, behind a *"
        )
    kept = [p for p in parameters if p.name != hidden]
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
