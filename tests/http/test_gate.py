"""Who may enter, what they may do, and how often."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from stoker.desk import Desk
from stoker.doors.http.gate import Pace
from stoker.doors.http.register import Register
from stoker.doors.http.settings import Settings
from stoker.kernel.job import Job
from tests.http.client import PATIENCE, Api
from tests.http.server import listening

WITHOUT = ("/health", "/ready", "/openapi.json")


@pytest.fixture
def tokens(desk: Desk) -> dict[str, str]:
    """One token for each scope."""
    register = Register(desk)
    scopes = ("enqueue", "work", "operate", "admin")
    return {scope: register.add(scope, [scope]) for scope in scopes}  # type: ignore[list-item]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_with_tokens_nobody_enters_without_one(tokens: dict[str, str], api: Api) -> None:
    for headers in ({}, bearer("stoker_wrong"), {"Authorization": f"Basic {tokens['admin']}"}):
        answer = api.ask("POST", "/v1/jobs", {"queue": "q"}, headers=headers)
        assert (answer.status, answer.json["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert [api.get(path).status for path in WITHOUT] == [200, 200, 200]


def test_each_scope_opens_what_it_is_for(tokens: dict[str, str], api: Api) -> None:
    tried = {
        "enqueue": ("POST", "/v1/jobs", {"queue": "q"}),
        "jobber": ("POST", "/jobber/queue", {"type": "t"}),
        "work": ("POST", "/v1/claims", {"queues": ["none"]}),
        "operate": ("GET", "/v1/jobs", None),
        "look": ("GET", "/v1/jobs/1", None),
        "admin": ("GET", "/v1/tokens", None),
    }
    opened = {
        scope: [
            name
            for name, (method, path, said) in tried.items()
            if api.ask(method, path, said, headers=bearer(token)).status < 300
        ]
        for scope, token in tokens.items()
    }
    assert opened == {
        "enqueue": ["enqueue", "jobber", "look"],
        "work": ["work", "look"],
        "operate": ["operate", "look"],
        "admin": list(tried),
    }
    refused = api.ask("GET", "/v1/jobs", headers=bearer(tokens["work"]))
    assert (refused.status, "operate" in refused.json["detail"]) == (403, True)


def test_a_token_is_kept_as_a_hash_only(tokens: dict[str, str], desk: Desk) -> None:
    kept = b"".join(note.value for note in desk.store.notes().values())
    assert all(token.encode() not in kept for token in tokens.values())
    assert all(token.partition("_")[2].encode() not in kept for token in tokens.values())


def test_tokens_that_are_made_at_the_same_time_are_all_there(desk: Desk) -> None:
    with ThreadPoolExecutor(4) as threads:
        names = [f"t{number}" for number in range(8)]
        list(threads.map(lambda name: Register(desk).add(name, ["work"]), names))
    assert sorted(Register(desk).entries()) == names


def test_tokens_are_made_listed_and_taken_away_over_http(desk: Desk, api: Api) -> None:
    made = api.done("POST", "/v1/tokens", {"name": "root", "scopes": ["admin"]})
    root = bearer(made["token"])
    assert api.get("/v1/tokens").status == 401
    shop = {"name": "shop", "scopes": ["enqueue"], "rate": 5}
    token = api.ask("POST", "/v1/tokens", shop, headers=root).json["token"]
    listed = api.ask("GET", "/v1/tokens", headers=root).json["tokens"]
    assert [(each["name"], each["scopes"], each["rate"]) for each in listed] == [
        ("root", ["admin"], None),
        ("shop", ["enqueue"], 5.0),
    ]
    assert api.ask("POST", "/v1/tokens", shop, headers=root).status == 400
    assert api.ask("POST", "/v1/jobs", {"queue": "q"}, headers=bearer(token)).status == 201
    assert api.ask("DELETE", "/v1/tokens/shop", headers=root).status == 204
    assert api.ask("DELETE", "/v1/tokens/shop", headers=root).status == 404
    assert api.ask("POST", "/v1/jobs", {"queue": "q"}, headers=bearer(token)).status == 401


def test_an_exposed_door_stays_shut_when_its_last_token_is_taken_away(
    desk: Desk, door: Callable[..., Api]
) -> None:
    Register(desk).add("a", ["admin"])
    Register(desk).remove("a")
    assert door(host="0.0.0.0").get("/v1/stats").status == 401  # noqa: S104
    assert door(host="0.0.0.0", insecure=True).get("/v1/stats").status == 200  # noqa: S104


def test_a_stream_ends_when_its_token_is_taken_away(desk: Desk) -> None:
    token, other = Register(desk).add("a", ["operate"]), Register(desk).add("b", ["admin"])
    desk.intake.enqueue(Job("q"))
    with listening(Settings(port=0), desk) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request("GET", "/v1/events?queue=*", headers=bearer(token))
        stream = connection.getresponse()
        while not stream.readline().startswith(b"data:"):
            pass
        second = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        second.request("DELETE", "/v1/tokens/a", headers=bearer(other))
        assert second.getresponse().read() == b""
        second.request("POST", "/v1/jobs", '{"queue":"secret"}', bearer(other))
        assert second.getresponse().status == 201
        for line in stream:
            assert b"secret" not in line
        connection.close()
        second.close()


def test_a_token_may_call_so_often_a_second(desk: Desk, door: Callable[..., Api]) -> None:
    slow, fast = Register(desk).add("slow", ["operate"], 1), Register(desk).add("fast", ["operate"])
    api = door(rate=1000.0)
    answers = [api.ask("GET", "/v1/stats", headers=bearer(slow)) for _ in range(5)]
    assert [answer.status for answer in answers][:2] == [200, 429]
    assert answers[1].headers["retry-after"] == "1"
    assert [api.ask("GET", "/v1/stats", headers=bearer(fast)).status for _ in range(5)] == [200] * 5


@pytest.mark.parametrize(("rate", "seconds"), [(0.15, "7"), (5e-324, "86400")])
def test_whoever_may_call_seldom_is_told_for_how_long_to_wait(
    desk: Desk, door: Callable[..., Api], rate: float, seconds: str
) -> None:
    seldom = bearer(Register(desk).add("seldom", ["operate"], rate))
    api = door()
    first, second = (api.ask("GET", "/v1/stats", headers=seldom) for _ in range(2))
    assert (first.status, second.status) == (200, 429)
    assert second.headers["retry-after"] == seconds


def test_a_bucket_fills_by_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    at = [100.0]
    monkeypatch.setattr("stoker.doors.http.gate.time.monotonic", lambda: at[0])
    pace = Pace()
    assert [pace.allows("a", 2.0) for _ in range(3)] == [True, True, False]
    assert pace.allows("b", 2.0)
    at[0] += 0.5
    assert [pace.allows("a", 2.0) for _ in range(2)] == [True, False]
    at[0] += 60
    assert [pace.allows("a", 2.0) for _ in range(3)] == [True, True, False]


# -- web pages, which run on this machine and are not ours ---------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "10.0.0.1", "[", ""])
def test_without_tokens_a_server_of_this_machine_answers_to_its_own_names_only(
    plain: Api, host: str
) -> None:
    assert plain.ask("GET", "/v1/stats", headers={"Host": host}).status == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080"])
def test_these_are_its_names(plain: Api, host: str) -> None:
    assert plain.ask("GET", "/v1/stats", headers={"Host": host}).status == 200


def test_without_tokens_pages_of_others_are_not_served(plain: Api) -> None:
    for origin, status in (
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost", 200),
    ):
        headers = {"Origin": origin, "Host": "localhost"}
        assert plain.ask("GET", "/v1/stats", headers=headers).status == status
    preflight = plain.ask("OPTIONS", "/v1/jobs", headers={"Origin": "https://evil.example"})
    assert preflight.status == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]
