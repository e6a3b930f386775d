"""The OpenAPI page: what it says is what is served, whatever is sent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from stoker.desk import Desk
from stoker.doors.http.app import OPERATIONS
from stoker.doors.http.openapi import described
from stoker.doors.http.problems import KINDS
from stoker.doors.http.settings import Settings
from stoker.errors import StokerError
from stoker.kernel.job import Job
from stoker.store.memory import MemoryStore
from tests.http.client import Api
from tests.http.server import listening

LEASE = 4711
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]
ENDLESS = ("/v1/events",)  # a stream has no end; see test_events
PAGE = msgspec.json.decode(msgspec.json.encode(described()))
NAMES = sorted(
    f"{method.upper()} {path}" for path, item in PAGE["paths"].items() for method in item
)


@pytest.fixture(scope="module")
def schema() -> Iterator[Any]:
    """The page of a server where something is there: jobs in hand, and others that wait."""
    desk = Desk(MemoryStore(), token=lambda: LEASE)
    desk.intake.enqueue_many([Job("q", payload=b"[1]") for _ in range(20)])
    desk.dispatch.claim(["q"], 10)
    quick = Settings(port=0, longest_wait=0.01, callbacks=("http://127.0.0.1:9/",))
    with listening(quick, desk) as port:
        yield schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith(ENDLESS)])
def test_nothing_that_is_sent_leads_to_an_answer_that_is_not_told(schema: Any, name: str) -> None:
    method, _, path = name.partition(" ")
    operation = schema[path][method]
    modes = schemathesis.GenerationMode
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))
    turn = itertools.count()

    @given(case=cases)
    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def sent(case: Any) -> None:
        if next(turn) % 2 and case.meta.generation.mode is modes.POSITIVE:
            _aim(case)
        case.call_and_validate(checks=CHECKS)

    sent()


def _aim(case: Any) -> None:
    """At something that is there."""
    if isinstance(case.path_parameters.get("id"), int):
        case.path_parameters["id"] = 1 + case.path_parameters["id"] % 20
    if isinstance(case.body, dict) and "lease" in case.body:
        case.body["lease"] = str(LEASE)


# -- the page itself -----------------------------------------------------------------------


def test_the_page_is_served(plain: Api) -> None:
    assert plain.get("/openapi.json").json == PAGE
    assert PAGE["openapi"] == "3.1.0"


def test_every_operation_is_told_once_and_has_a_name_of_its_own() -> None:
    assert len(NAMES) == len(OPERATIONS)
    named = [said["operationId"] for item in PAGE["paths"].values() for said in item.values()]
    assert len(set(named)) == len(named)


def test_every_reference_leads_to_a_schema() -> None:
    text = msgspec.json.encode(PAGE).decode()
    prefix = "#/components/schemas/"
    named = {part.partition('"')[0] for part in text.split(prefix)[1:]}
    assert named <= PAGE["components"]["schemas"].keys()


@pytest.mark.parametrize("method", ["get", "put", "patch"])
def test_what_is_told_of_a_throttler_is_on_the_page(method: str) -> None:
    schemas = PAGE["components"]["schemas"]
    answer = PAGE["paths"]["/v1/queues/{name}"][method]["responses"]["200"]["content"]
    queue = schemas[answer["application/json"]["schema"]["$ref"].rpartition("/")[2]]
    assert {"name", "counts", "used", "settings", "throttler"} == set(queue["required"])
    assert {"error", "state"} == set(schemas["ThrottlerForm"]["required"])


def test_every_error_of_stoker_has_a_status() -> None:
    def codes(kind: type[StokerError]) -> set[str]:
        return {kind.code}.union(*(codes(sub) for sub in kind.__subclasses__()))

    ours = {sub for sub in _all(StokerError) if sub.__module__ == "stoker.errors"}
    assert {kind.code for kind in ours} - {"error"} <= KINDS.keys()


def _all(kind: type[StokerError]) -> set[type[StokerError]]:
    return {kind}.union(*(_all(sub) for sub in kind.__subclasses__()))
