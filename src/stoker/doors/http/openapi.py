"""The OpenAPI page: all operations, generated from their table and the types of what is said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from stoker import __version__
from stoker.doors.http.answers import EVENTS, PROBLEM, Answer, told
from stoker.doors.http.endpoint import LONGEST_KEY, Call, Operation
from stoker.doors.http.problems import KINDS, Problem

Page = dict[str, Any]

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)(?::(\w+))?}")
_PLACES: Mapping[str | None, Page] = {
    "digits": {"type": "integer", "minimum": 0},
    "path": {"type": "string", "minLength": 1},
    None: {"type": "string", "minLength": 1},
}
_ALWAYS = ("bad_input", "store_unavailable", "store_full")
_GUARDED = ("unauthorized", "forbidden", "too_many")
_SPOKEN = ("too_large",)
_ONCE = ("key_in_use", "answer_not_kept", "key_reused")
_ABOUT = """\
Jobs for any language: put them in, work on them, look after them.

Durations are seconds or texts such as `30s`; moments are ISO 8601 with a zone. Whatever is no \
success is told as a problem (RFC 9457): its `code` is for programs, `detail` and `advice` are for \
people."""


async def page(call: Call) -> Answer:  # noqa: ARG001 - all operations look alike
    """What can be asked for."""
    return told(described())


OPERATIONS = [
    Operation(
        *("GET", "/openapi.json", page, "This page"),
        answers={200: dict[str, Any]},
    )
]


@lru_cache(maxsize=1)
def described() -> Page:
    """The whole page."""
    from stoker.doors.http.app import OPERATIONS as ALL  # noqa: PLC0415 - of which we are a part

    schemas, components = _schemas(ALL)
    paths: dict[str, Page] = {}
    for operation in ALL:
        path = _PARAMETER.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stoker", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(operations: Sequence[Operation]) -> tuple[dict[Any, Page], Page]:
    types = [Problem]
    for operation in operations:
        said = [operation.body, *operation.answers.values()]
        types += [each for each in said if each not in (None, Raw, EVENTS)]
    distinct = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(distinct, ref_template=_REF)
    return dict(zip(distinct, schemas, strict=True)), components


def _operation(operation: Operation, schemas: Mapping[Any, Page]) -> Page:
    said: Page = {
        "operationId": f"{operation.method.lower()}{_slug(operation.path)}",
        "summary": operation.summary,
        "parameters": [*_path(operation), *_query(operation), *_headers(operation)],
        "responses": {**_answers(operation, schemas), **_problems(operation, schemas)},
    }
    if operation.body is not None:
        schema = schemas.get(operation.body, {})
        said["requestBody"] = {
            "required": operation.body is Raw or _has_required(operation.body),
            "content": {"application/json": {"schema": schema}},
        }
    if operation.scopes:
        scopes = " or ".join(operation.scopes)
        said["description"] = f"Needs a token with the scope {scopes}, where tokens are needed."
        said["security"] = [{"token": []}, {}]
    return said


def _slug(path: str) -> str:
    return re.sub(r"\W+", "_", _PARAMETER.sub(r"\1", path)).rstrip("_")


def _has_required(body: type[msgspec.Struct]) -> bool:
    return any(field.required for field in msgspec.structs.fields(body))


def _path(operation: Operation) -> Iterator[Page]:
    for name, kind in _PARAMETER.findall(operation.path):
        yield {"name": name, "in": "path", "required": True, "schema": _PLACES[kind or None]}


def _query(operation: Operation) -> Iterator[Page]:
    if operation.query is None:
        return
    (_,), components = msgspec.json.schema_components([operation.query], ref_template=_REF)
    described = components[operation.query.__name__]
    for name, schema in described["properties"].items():
        yield {
            "name": name,
            "in": "query",
            "required": name in described.get("required", ()),
            "schema": _without_null(schema),
        }


def _without_null(schema: Page) -> Page:
    """What is left out of a query is not there; nobody can say null."""
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    rest = {name: said for name, said in schema.items() if name not in ("anyOf", "default")}
    return {**rest, **choices[0]} if len(choices) == 1 else schema


def _headers(operation: Operation) -> Iterator[Page]:
    for name, text in operation.headers.items():
        yield {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
    if operation.once:
        yield {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "The same request sent again with the same key is done once.",
            "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
        }


def _answers(operation: Operation, schemas: Mapping[Any, Page]) -> Page:
    said: Page = {}
    for status, kind in operation.answers.items():
        answer: Page = {"description": operation.summary}
        if kind == EVENTS:
            answer["content"] = {EVENTS: {"schema": {"type": "string"}}}
        elif kind is not None:
            answer["content"] = {"application/json": {"schema": schemas[kind]}}
        said[str(status)] = answer
    return said


def _problems(operation: Operation, schemas: Mapping[Any, Page]) -> Page:
    codes = [*operation.problems, *_ALWAYS]
    codes += _GUARDED if operation.scopes else ()
    codes += _SPOKEN if operation.body is not None else ()
    codes += _ONCE if operation.once else ()
    codes += ("no_such_route",) if "{" in operation.path else ()
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(KINDS[code].status, []).append(code)
    content = {PROBLEM: {"schema": schemas[Problem]}}
    return {
        str(status): {
            "description": "; ".join(f"{code}: {KINDS[code].title}" for code in by_status[status]),
            "content": content,
        }
        for status in sorted(by_status)
        if status not in operation.answers
    }
