"""Working over HTTP: claims, words about jobs in hand, sessions."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.doors.http.office import Account, Office
from stoker.doors.http.settings import Settings
from stoker.doors.http.waiting import Wish
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings, Retention
from stoker.store import Answer as StoreAnswer
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.http.client import Api


def test_a_job_is_claimed_once_and_finished_with_its_result(api: Api) -> None:
    job_id = api.put(payload={"n": 1})
    (job,) = api.take()
    assert (job["id"], job["state"], job["attempt"], job["payload"]) == (
        job_id,
        "RUNNING",
        1,
        {"n": 1},
    )
    assert api.take() == []
    assert api.say(job, "finish", result=[1]).json == {"id": job_id, "state": "FINISHED"}
    assert api.job(job_id)["result"] == [1]


def test_several_queues_patterns_and_numbers_can_be_claimed(api: Api) -> None:
    for queue in ("mail-a", "mail-b", "report", "other"):
        api.put(queue)
    taken = api.take("mail-*", "report", limit=10)
    assert sorted(job["queue"] for job in taken) == ["mail-a", "mail-b", "report"]
    assert len({job["lease"] for job in taken}) == 1


@pytest.mark.parametrize(
    "wish", [{"queues": []}, {"queues": ["q"], "limit": 0}, {"queues": ["q"], "limit": 1001}, {}]
)
def test_a_claim_that_cannot_be_meant_is_refused(plain: Api, wish: dict[str, Any]) -> None:
    assert plain.post("/v1/claims", wish).status == 400


def test_a_pattern_that_is_too_long_is_refused(plain: Api) -> None:
    assert "shorten it" in plain.post("/v1/claims", {"queues": ["*" * 300]}).json["detail"]


def test_one_bad_claim_does_not_spoil_those_of_others(api: Api) -> None:
    """They may be carried out in one step."""
    answers: list[Any] = []
    api.put()

    def ask(queue: str) -> None:
        answers.append(api.post("/v1/claims", {"queues": [queue]}).status)

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("*" * 300, "q")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answers) == [200, 400]


def test_a_lease_ends_when_its_time_is_up_and_the_job_goes_to_another(
    api: Api, desk: Desk, clock: VirtualClock
) -> None:
    api.put()
    (job,) = api.take(visibility="15s")
    clock.pass_(14)
    assert recover(desk.clerk) == 0
    clock.pass_(1)
    recover(desk.clerk)
    (again,) = api.take()
    assert (again["id"], again["crashes"], again["lease"] != job["lease"]) == (job["id"], 1, True)
    late = api.say(job, "finish")
    assert (late.status, late.json["code"]) == (409, "lease_lost")
    assert api.say(again, "finish").status == 200


def test_without_a_word_about_it_a_lease_lasts_a_minute(
    api: Api, desk: Desk, clock: VirtualClock
) -> None:
    api.put()
    api.take()
    clock.pass_(60)
    recover(desk.clerk)
    assert len(api.take()) == 1


def test_a_lease_can_be_renewed_and_progress_told(
    api: Api, desk: Desk, clock: VirtualClock
) -> None:
    api.put()
    (job,) = api.take(visibility=10)
    clock.pass_(9)
    held = api.say(job, "renew", visibility=10).json
    assert (held["until"] > job["until"], held["cancel_requested"]) == (True, False)
    clock.pass_(9)
    api.say(job, "progress", progress=0.5, visibility=10)
    clock.pass_(9)
    recover(desk.clerk)
    assert (api.state(1), api.job(1)["progress"]) == ("RUNNING", 0.5)
    assert api.say(job, "progress", progress=2).status == 400
    api.done("POST", "/v1/jobs/1/cancel")
    assert api.say(job, "renew", visibility=10).json["cancel_requested"] is True


def test_a_spoilt_try_goes_by_the_policy_or_by_the_worker_s_word(
    api: Api, clock: VirtualClock
) -> None:
    api.put(policy={"retry": "fixed 10s x5"})
    (job,) = api.take()
    assert api.say(job, "fail", error="no route", kinds=["net.Timeout"]).json["state"] == "QUEUED"
    assert api.job(1)["error"] == "no route"
    clock.pass_(10)
    (job,) = api.take()
    assert api.say(job, "fail", error="busy", retry="1h", payload=[2]).json["state"] == "QUEUED"
    clock.pass_(10)
    assert api.take() == []
    clock.pass_(3600)
    (job,) = api.take()
    assert (job["attempt"], job["payload"]) == (3, [2])
    assert api.say(job, "fail", error="never", retry=False).json["state"] == "FAILED"


def test_a_policy_may_choose_by_the_kinds_of_an_error(api: Api) -> None:
    retry = {
        "kind": "by_error",
        "rules": [["net.Timeout", {"kind": "fixed", "every": 1_000_000, "limit": 3}]],
        "otherwise": {"kind": "never"},
    }
    for kinds, state in ((["net.Timeout"], "QUEUED"), ([], "FAILED")):
        api.put("chosen", policy={"retry": retry})
        (job,) = api.take("chosen")
        assert api.say(job, "fail", error="x", kinds=kinds).json["state"] == state


def test_a_job_can_be_given_back_put_off_and_snoozed(api: Api, clock: VirtualClock) -> None:
    api.put(payload=1)
    (job,) = api.take()
    assert api.say(job, "release", reason="shutting down").json["state"] == "QUEUED"
    (job,) = api.take()
    assert (job["attempt"], job["error"]) == (1, "shutting down")
    api.say(job, "release", delay=60, payload=2)
    assert api.take() == []
    clock.pass_(60)
    (job,) = api.take()
    assert (job["payload"], job["attempt"]) == (2, 1)
    api.say(job, "snooze", delay="1m", payload=3)
    assert api.take() == []
    clock.pass_(60)
    assert [each["payload"] for each in api.take()] == [3]


def test_a_job_waits_for_a_reply_and_goes_on_with_it(api: Api) -> None:
    api.put()
    (job,) = api.take()
    assert api.say(job, "wait", key="pay/7", timeout="1h").json["state"] == "WAITING"
    assert api.take() == []
    assert api.done("POST", "/v1/replies/pay/7", {"paid": True}) == {"reply": "delivered"}
    (job,) = api.take()
    assert (job["reply"], job["attempt"]) == ({"paid": True}, 1)
    said = [api.done("POST", "/v1/replies/nobody", 1)["reply"] for _ in range(2)]
    assert said == ["kept", "repeated"]


def test_a_reply_that_comes_too_late_is_told_so(api: Api, desk: Desk, clock: VirtualClock) -> None:
    api.put()
    (job,) = api.take()
    api.say(job, "wait", key="pay/7", timeout=5)
    clock.pass_(5)
    recover(desk.clerk)
    assert api.done("POST", "/v1/replies/pay/7", {"paid": True}) == {"reply": "late"}


def test_a_payload_can_be_replaced_while_it_runs(api: Api, desk: Desk, clock: VirtualClock) -> None:
    api.put(payload={"done": 0})
    (job,) = api.take(visibility=5)
    api.say(job, "update", payload={"done": 1})
    clock.pass_(5)
    recover(desk.clerk)
    assert [each["payload"] for each in api.take()] == [{"done": 1}]


def test_children_run_before_their_parent_goes_on(api: Api) -> None:
    api.put("parent")
    (parent,) = api.take("parent")
    children = [{"queue": "child", "payload": n} for n in (1, 2)]
    answer = api.say(parent, "spawn", jobs=children)
    assert (answer.status, len(answer.json["ids"])) == (201, 2)
    assert api.take("child", limit=9) == []
    assert api.say(parent, "finish").json["state"] == "WAITING"
    taken = api.take("child", limit=9)
    assert [job["parent_id"] for job in taken] == [parent["id"]] * 2
    for job in taken:
        api.say(job, "finish")
    (parent,) = api.take("parent")
    assert parent["children"] == {"open": 0, "finished": 2, "failed": 0, "cancelled": 0}


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("finish", {}),
        ("fail", {"error": "x"}),
        ("release", {}),
        ("snooze", {"delay": 1}),
        ("wait", {"key": "k"}),
        ("renew", {"visibility": 1}),
        ("progress", {"progress": 0.1}),
        ("update", {"payload": 1}),
        ("spawn", {"jobs": [{"queue": "q"}]}),
    ],
)
def test_no_word_counts_without_the_lease(plain: Api, verb: str, words: dict[str, Any]) -> None:
    job_id = plain.put()
    plain.take()
    for lease, status in (("123", 409), ("9" * 19, 400), ("x", 400)):
        answer = plain.post(f"/v1/jobs/{job_id}/{verb}", {"lease": lease, **words})
        assert answer.status == status, answer
    assert plain.post(f"/v1/jobs/99/{verb}", {"lease": "1", **words}).status == 404
    assert plain.state(job_id) == "RUNNING"


def test_a_job_that_is_not_kept_is_told_to_have_ended(api: Api, desk: Desk) -> None:
    desk.control.configure("q", QueueSettings(retention=Retention(0, 0, 0)))
    told = []
    for verb, words in (("finish", {}), ("fail", {"error": "x"}), ("release", {})):
        job_id = api.put()
        (job,) = api.take()
        if verb == "release":
            api.done("POST", f"/v1/jobs/{job_id}/cancel")
        told.append(api.say(job, verb, **words).json["state"])
        assert api.get(f"/v1/jobs/{job_id}").status == 404
    assert told == ["FINISHED", "FAILED", "CANCELLED"]


def test_many_jobs_are_reported_and_the_next_ones_claimed(api: Api) -> None:
    for n in range(5):
        api.put(payload=n)
    a, b, c = api.take(limit=3)
    reports = [
        {"do": "finish", "id": a["id"], "lease": a["lease"], "result": 7},
        {"do": "fail", "id": b["id"], "lease": b["lease"], "error": "x"},
        {"do": "snooze", "id": c["id"], "lease": c["lease"], "delay": 60},
        {"do": "release", "id": 99, "lease": "1"},
        {"do": "finish", "id": a["id"], "lease": a["lease"]},
    ]
    told = api.done(
        "POST", "/v1/reports", {"reports": reports, "claim": {"queues": ["q"], "limit": 9}}
    )
    assert [each["state"] for each in told["reports"]] == [
        "FINISHED",
        "FAILED",
        "QUEUED",
        None,
        None,
    ]
    assert [each["error"] for each in told["reports"][3:]] == ["not_found", "lease_lost"]
    assert [job["payload"] for job in told["jobs"]] == [3, 4]
    assert api.job(a["id"])["result"] == 7


def test_all_reports_of_a_request_and_its_claim_are_one_step(
    api: Api, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(12):
        api.put(payload=n)
    taken = api.take(limit=9)
    steps = []
    transact = desk.store.transact

    def counted(*business: Any) -> StoreAnswer:
        steps.append(business)
        return transact(*business)

    monkeypatch.setattr(desk.store, "transact", counted)
    says: list[dict[str, Any]] = [
        {"do": "finish", "result": 1},
        {"do": "release"},
        {"do": "finish"},
    ]
    reports = [
        {**says[n % 3], "id": job["id"], "lease": job["lease"]} for n, job in enumerate(taken)
    ]
    told = api.done(
        "POST", "/v1/reports", {"reports": reports, "claim": {"queues": ["q"], "limit": 9}}
    )
    states = ["FINISHED", "QUEUED", "FINISHED"]
    assert [each["state"] for each in told["reports"]] == states * 3
    assert sorted(job["payload"] for job in told["jobs"]) == [1, 4, 7, 9, 10, 11]
    assert len(steps) == 1


def test_what_cannot_be_claimed_leaves_the_reports_undone(api: Api) -> None:
    api.put()
    (job,) = api.take()
    report = {"do": "finish", "id": job["id"], "lease": job["lease"]}
    refused = api.post("/v1/reports", {"reports": [report], "claim": {"queues": ["*" * 300]}})
    assert (refused.status, api.state(job["id"])) == (400, "RUNNING")
    assert api.done("POST", "/v1/reports", {"reports": [report]})["jobs"] == []
    assert api.state(job["id"]) == "FINISHED"


def test_a_claim_by_a_session_that_is_over_is_refused_though_the_reports_count(api: Api) -> None:
    api.put()
    (job,) = api.take()
    report = {"do": "finish", "id": job["id"], "lease": job["lease"]}
    claim = {"queues": ["q"], "session": "4711"}
    refused = api.post("/v1/reports", {"reports": [report], "claim": claim})
    assert (refused.status, refused.json["code"]) == (409, "session_lost")
    assert api.state(job["id"]) == "FINISHED"


def test_who_reports_may_wait_for_the_next_job(api: Api) -> None:
    api.put(payload=1)
    (job,) = api.take()
    report = {"do": "finish", "id": job["id"], "lease": job["lease"]}
    answers: list[Any] = []

    def ask() -> None:
        claim = {"queues": ["q"], "wait": 30}
        answers.append(api.done("POST", "/v1/reports", {"reports": [report], "claim": claim}))

    thread = threading.Thread(target=ask)
    thread.start()
    assert api.get(f"/v1/jobs/{job['id']}?wait=30").json["state"] == "FINISHED"
    api.put(payload=2)
    thread.join(30)
    assert [each["payload"] for each in answers[0]["jobs"]] == [2]


@pytest.mark.parametrize("late", [False, True])
def test_jobs_that_come_with_reports_of_a_client_that_is_gone_go_back_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """Whether it goes before they are there, or in the very moment."""
    job_id = desk.intake.enqueue(Job("q")).id

    async def story() -> None:
        office = Office(desk, Settings())
        await office.open()
        client = asyncio.create_task(office.settle(Account((), Wish(("q",), 1, None, None))))
        hand_over = office._hand_over

        def in_vain(*handed: Any) -> None:
            hand_over(*handed)
            client.cancel()

        if late:
            monkeypatch.setattr(office, "_hand_over", in_vain)
        await asyncio.sleep(0)
        if not late:
            client.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client
        await office.close()

    asyncio.run(story())
    (job,) = desk.dispatch.claim(["q"])
    assert (job.id, job.attempt, job.crashes) == (job_id, 1, 0)


# -- sessions ------------------------------------------------------------------------------


def test_a_session_keeps_its_leases_as_long_as_it_beats(
    api: Api, desk: Desk, clock: VirtualClock
) -> None:
    opened = api.post("/v1/sessions", {"name": "w", "ttl": 10, "host": "h", "concurrency": 4})
    assert (opened.status, opened.json["ttl"]) == (201, 10.0)
    session = opened.json["session"]
    api.put()
    (job,) = api.take(session=session)
    assert (job["session"], job["until"] is not None) == (session, True)
    for _ in range(20):
        clock.pass_(9)
        recover(desk.clerk)
        assert api.done("POST", f"/v1/sessions/{session}/beat", {"ttl": 10}) == {"cancel": []}
    (worker,) = api.get("/v1/workers").json["workers"]
    assert (worker["name"], worker["concurrency"], worker["held"]) == ("w", 4, 1)
    api.done("POST", f"/v1/jobs/{job['id']}/cancel")
    assert api.done("POST", f"/v1/sessions/{session}/beat", {}) == {"cancel": [job["id"]]}


def test_a_dead_session_is_told_so_and_its_jobs_go_to_another(
    api: Api, desk: Desk, clock: VirtualClock
) -> None:
    session = api.done("POST", "/v1/sessions", {"ttl": 5})["session"]
    api.put()
    (job,) = api.take(session=session)
    clock.pass_(5)
    assert api.post(f"/v1/sessions/{session}/beat").json["code"] == "session_lost"
    refused = api.post("/v1/claims", {"queues": ["q"], "session": session})
    assert (refused.status, refused.json["code"]) == (409, "session_lost")
    recover(desk.clerk)
    assert [each["id"] for each in api.take()] == [job["id"]]


def test_what_a_closed_session_holds_is_free_at_once(api: Api) -> None:
    session = api.done("POST", "/v1/sessions", {})["session"]
    api.put()
    api.take(session=session)
    assert api.ask("DELETE", f"/v1/sessions/{session}").status == 204
    assert len(api.take()) == 1


@pytest.mark.parametrize("session", ["1", "9" * 30, "9" * 5000])
def test_a_session_that_never_was_is_lost(api: Api, session: str) -> None:
    assert api.post(f"/v1/sessions/{session}/beat", {}).json["code"] == "session_lost"


@pytest.mark.parametrize("nothing", [0, "0s", 1e-9])
def test_a_lease_that_would_be_over_at_once_is_neither_given_nor_made_so(
    plain: Api, nothing: float | str
) -> None:
    plain.put()
    claim = {"queues": ["q"], "visibility": nothing}
    reports = {"reports": [], "claim": claim}
    refused = [plain.post("/v1/claims", claim), plain.post("/v1/reports", reports)]
    (job,) = plain.take()
    refused.append(plain.say(job, "renew", visibility=nothing))
    refused.append(plain.say(job, "progress", progress=0.5, visibility=nothing))
    for answer in refused:
        assert (answer.status, "visibility of 0" in answer.json["detail"]) == (400, True)
    assert plain.say(job, "finish").status == 200


def test_a_session_must_last_a_second(plain: Api) -> None:
    assert "a second at least" in plain.post("/v1/sessions", {"ttl": 0.5}).json["detail"]
