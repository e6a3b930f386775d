"""Answers without a token: by a URL that we signed, or by a request that its sender signed."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest

from stoker.desk import Desk
from stoker.desk.signing import WINDOW, callback_url, sign_request
from stoker.errors import BadInput
from stoker.kernel.job import Job
from stoker.kernel.outcome import Awaits
from stoker.store.memory import MemoryStore
from stoker.worker.context import Context
from tests.engines import SECOND, VirtualClock
from tests.http.client import Api
from tests.http.conftest import Serve

SECRET = "a-secret"  # noqa: S105
BODY = b' {"paid": true}\n'
KEYS = ["order-7", "order 7/ä?&%"]


@pytest.fixture
def api(door: Callable[..., Api]) -> Api:
    """A door that knows two secrets, of which the first is to be forgotten soon."""
    return door(callback_secrets=("an old secret", SECRET))


def waiting(desk: Desk, key: str) -> int:
    desk.intake.enqueue(Job("orders"))
    (job,) = desk.dispatch.claim(["orders"])
    return desk.report.wait(job, Awaits(key)).id


def url_for(desk: Desk, key: str, secret: str = SECRET, seconds: int = 60) -> str:
    expires = desk.store.now() + seconds * SECOND
    return callback_url(key, expires, base="http://jobs/", secret=secret).removeprefix(
        "http://jobs"
    )


def path(key: str) -> str:
    return f"/v1/callbacks/{quote(key, safe='')}"


@pytest.mark.parametrize("key", KEYS)
def test_whoever_has_the_signed_url_may_answer(api: Api, desk: Desk, key: str) -> None:
    job = waiting(desk, key)
    assert api.post(url_for(desk, key), BODY).json == {"reply": "delivered"}
    assert desk.store.get([job])[job].reply == BODY.strip()


@pytest.mark.parametrize("key", KEYS)
def test_whoever_knows_the_secret_may_sign_the_request(api: Api, desk: Desk, key: str) -> None:
    job = waiting(desk, key)
    header = sign_request(SECRET, key, BODY, desk.store.now())
    answer = api.post(path(key), BODY, Stoker_Signature=header)
    assert (answer.status, answer.json) == (200, {"reply": "delivered"})
    assert desk.store.get([job])[job].reply == BODY.strip()


def test_a_request_that_is_sent_again_does_not_answer_twice(api: Api, desk: Desk) -> None:
    waiting(desk, "k")
    header = sign_request(SECRET, "k", BODY, desk.store.now())
    url = url_for(desk, "other")
    waiting(desk, "other")
    for _ in range(2):
        api.post(path("k"), BODY, Stoker_Signature=header)
        api.post(url, BODY)
    again = waiting(desk, "k"), waiting(desk, "other")
    assert api.post(path("k"), BODY, Stoker_Signature=header).json == {"reply": "repeated"}
    assert api.post(url, BODY).json == {"reply": "repeated"}
    assert {desk.store.get([job])[job].reply for job in again} == {None}
    assert api.post(url, b'"news"').json == {"reply": "delivered"}


def test_a_wrong_signature_is_refused(api: Api, desk: Desk) -> None:
    now, job = desk.store.now(), waiting(desk, "k")
    url = url_for(desk, "k")
    signed = {"Stoker_Signature": sign_request(SECRET, "k", BODY, now)}
    refused = [
        api.post(url_for(desk, "k", "guessed"), BODY),
        api.post(url_for(desk, "other").replace("other", "k"), BODY),
        api.post(url.replace("expires=1", "expires=2"), BODY),
        api.post(url[:-1], BODY),
        api.post(f"{path('k')}?expires=9999999999&signature=", BODY),
        api.post(path("k"), BODY),
        api.post(path("other"), BODY, **signed),
        api.post(path("k"), BODY + b" ", **signed),
        api.post(path("k"), BODY, Stoker_Signature=f"{signed['Stoker_Signature'][:-1]}-"),
        api.post(path("k"), BODY, Stoker_Signature="t=now,v1=,,="),
        api.post(path("k"), BODY, Stoker_Signature=f"t={'9' * 5000},v1="),
    ]
    assert [answer.status for answer in refused] == [401] * len(refused)
    assert desk.store.get([job])[job].reply is None


def test_signatures_grow_old(api: Api, desk: Desk, clock: VirtualClock) -> None:
    waiting(desk, "k")
    url, header = url_for(desk, "k"), sign_request(SECRET, "k", BODY, desk.store.now())
    clock.pass_(60)
    assert api.post(url, BODY).status == 401
    clock.pass_(WINDOW - 60)
    assert api.post(path("k"), BODY, Stoker_Signature=header).json == {"reply": "delivered"}
    clock.pass_(1)
    assert api.post(path("k"), BODY, Stoker_Signature=header).status == 401


def test_a_server_without_a_secret_takes_no_callbacks(desk: Desk, door: Callable[..., Api]) -> None:
    answer = door().post(url_for(desk, "k", "x"), BODY)
    assert answer.status == 403
    assert "--http-callback-secret" in answer.json["detail"]


def test_a_handler_makes_the_url_that_a_server_takes(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve("--http-callback-secret", SECRET)
    context = Context(Job("orders"), Desk(MemoryStore()))
    monkeypatch.setenv("STOKER_CALLBACK_SECRET", SECRET)
    with pytest.raises(BadInput, match="set STOKER_CALLBACK_URL"):
        context.callback_url("k")
    monkeypatch.setenv("STOKER_CALLBACK_URL", server.base)
    url = context.callback_url("k", within="1m").removeprefix(server.base)
    assert server.ask("POST", url, BODY).json == {"reply": "kept"}
