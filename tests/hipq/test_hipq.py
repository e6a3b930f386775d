"""Hipq: a request goes out, the job waits, an answer ends it; on every engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.errors import BadInput, Duplicate, NotFound
from stoker.hipq import NOT_YET, Final, HipqJob, HipqState, TryAgain, Waits
from stoker.kernel.retry import RetryPolicy
from stoker.kernel.retry_forms import by_error, fixed, never
from stoker.watch import run_chores
from tests.engines import VirtualClock
from tests.hipq.house import House

DAY = 86_400


def test_a_job_runs_until_its_answer_comes_and_then_is_final(house: House) -> None:
    house.handle(response=lambda job, answer: [job.job_data, answer["paid"]])
    job = house.put(job_key="4711", job_data={"coins": 11})
    assert house.state(job) == "initial"
    house.stage.drain()
    assert (house.state(job), house.asked) == ("running", [("4711", 1)])
    assert [each.id for each in house.hipq.running_jobs("orders")] == [job]
    assert house.hipq.respond("charge", "4711", {"paid": True}) == "delivered"
    assert house.state(job) == "running"
    house.stage.drain()
    seen = house.hipq.job(job)
    assert (seen.state, seen.error, seen.attempt) == (HipqState.FINAL, "NONE", 1)
    assert house.hipq.app.job(job).result == [{"coins": 11}, True]
    assert house.asked == [("4711", 1)]


def test_without_a_response_function_the_answer_is_the_result(house: House) -> None:
    house.handle()
    job = house.put()
    house.stage.drain()
    assert house.hipq.endJob("orders", "charge", job, [1, 2]) == "delivered"
    house.stage.drain()
    assert (house.state(job), house.hipq.app.job(job).result) == ("final", [1, 2])
    assert house.hipq.end_job("orders", "charge", job, "once more") == "late"


def test_a_request_that_needs_no_answer_is_final_at_once(house: House) -> None:
    house.handle(lambda job: Final({"sent": job.job_data}))
    job = house.put(job_data="x")
    house.stage.drain()
    assert (house.state(job), house.hipq.app.job(job).result) == ("final", {"sent": "x"})


def test_an_answer_that_comes_while_its_request_is_being_sent_is_kept_and_one_more_is_repeated(
    house: House,
) -> None:
    said: list[str] = []

    def request(job: HipqJob) -> None:
        said.append(house.hipq.respond("charge", job.job_key, "early"))
        said.append(house.hipq.respond("charge", job.job_key, "again"))

    house.handle(request)
    job = house.put(job_key="k")
    house.stage.drain()
    assert said == ["kept", "repeated"]
    assert house.hipq.job(job).response == "early"
    assert house.state(job) == "final"


def test_what_came_before_the_request_was_sent_is_no_answer_to_it(house: House) -> None:
    house.handle()
    assert house.hipq.respond("charge", "k", "to whom?") == "kept"
    job = house.put(job_key="k")
    house.stage.drain()
    assert (house.state(job), house.hipq.job(job).response) == ("running", None)
    assert house.hipq.respond("charge", "k", "to you") == "delivered"


def test_an_answer_that_came_too_late_is_taken_neither_by_the_next_try_nor_by_the_next_job(
    house: House, clock: VirtualClock
) -> None:
    house.handle(retry=lambda job: 30 if job.attempt == 1 else None)
    job = house.put(job_key="k", timeout=60)
    house.stage.drain()
    for _ in range(2):
        clock.pass_(60)
        house.stage.drain()
        assert house.hipq.respond("charge", "k", "late") == "late"
        clock.pass_(30)
        if house.state(job) == "final":
            house.put(job_key="k")
        house.stage.drain()
    assert house.asked == [("k", 1), ("k", 2), ("k", 1)]
    (successor,) = house.hipq.running_jobs("orders")
    assert (house.state(job), successor.response) == ("final", None)
    assert house.hipq.respond("charge", "k", "in time") == "delivered"


def test_a_second_answer_is_taken_by_nobody(house: House) -> None:
    house.handle()
    job = house.put(job_key="k")
    house.stage.drain()
    house.hipq.respond("charge", "k", "first")
    house.stage.drain()
    assert house.state(job) == "final"
    assert house.hipq.respond("charge", "k", "second") == "repeated"
    successor = house.put(job_key="k")
    house.stage.drain()
    assert (house.state(successor), house.hipq.job(successor).response) == ("running", None)


def test_an_answer_nobody_asked_for_does_no_harm(house: House) -> None:
    house.handle()
    job = house.put(job_key="k")
    house.stage.drain()
    assert house.hipq.respond("charge", "other", 1) == "kept"
    assert house.hipq.respond("refund", "k", 1) == "kept"
    assert house.state(job) == "running"
    with pytest.raises(NotFound, match="no job 99"):
        house.hipq.end_job("orders", "charge", 99, 1)


def test_the_service_may_give_out_the_key(house: House) -> None:
    house.handle(lambda job: Waits(f"ticket {job.id}"))
    job = house.put(job_key="ours")
    house.stage.drain()
    assert house.hipq.job(job).job_key == f"ticket {job}"
    assert house.hipq.respond("charge", "ours", 1) == "kept"
    assert house.hipq.respond("charge", f"ticket {job}", 1) == "delivered"


def test_a_key_that_was_given_out_twice_fails_the_second_job(house: House) -> None:
    house.handle(lambda job: Waits("the same"))
    first, second = house.put(), house.put()
    house.stage.drain()
    assert (house.state(first), house.state(second)) == ("running", "final")
    assert f"job {first} has the same unique key" in house.hipq.job(second).error


def test_of_unfinished_jobs_of_a_type_only_one_has_a_key(house: House) -> None:
    house.handle()
    first = house.put(job_key="k")
    with pytest.raises(Duplicate, match=f"job {first} of the type 'charge' has the key 'k'"):
        house.put(job_key="k")
    house.hipq.queue_job("orders", {"job_type": "refund", "job_key": "k"})
    house.stage.drain()
    with pytest.raises(Duplicate) as refused:
        house.put(job_key="k")
    assert refused.value.existing_id == first
    house.hipq.respond("charge", "k", 1)
    house.stage.drain()
    assert house.put(job_key="k") != first


def test_an_id_that_serves_as_a_key_is_no_key_for_another(house: House) -> None:
    house.handle()
    first = house.put()
    with pytest.raises(Duplicate, match=f"job {first} of the type 'charge'"):
        house.put(job_key=str(first))
    taken = house.put(job_key=str(first + 2))
    second = house.put()
    assert second == first + 2
    house.stage.drain()
    assert f"job {taken} has the key" in house.hipq.job(second).error
    assert house.asked == [(str(first), 1), (str(second), 1)]


def test_partial_answers_let_the_job_wait_on(house: House) -> None:
    parts: list[int] = []

    def response(job: HipqJob, answer: int) -> Any:
        parts.append(answer)
        return sum(parts) if len(parts) == 3 else NOT_YET

    house.handle(response=response)
    job = house.put(job_key="k")
    for part in (1, 2, 3):
        house.stage.drain()
        assert house.state(job) == "running"
        assert house.hipq.respond("charge", "k", part) == "delivered"
    house.stage.drain()
    assert (house.state(job), house.hipq.app.job(job).result) == ("final", 6)
    assert len(house.asked) == 1


# -- failures --------------------------------------------------------------------------------


def test_no_answer_in_time_is_an_error_and_the_retry_function_decides(
    house: House, clock: VirtualClock
) -> None:
    seen: list[HipqJob] = []

    def retry(job: HipqJob) -> Any:
        seen.append(job)
        return TryAgain(job_data="changed", priority=5) if job.attempt < 2 else None

    house.handle(retry=retry)
    job = house.put(job_key="k", job_data="first")
    house.stage.drain()
    clock.pass_(DAY)
    house.stage.drain()
    (asked,) = seen
    assert (asked.state, asked.job_data, asked.attempt) == (HipqState.ERROR, "first", 1)
    assert "no reply for 'hipq.charge:k' came in time" in asked.error
    again = house.hipq.job(job)
    assert (again.state, again.job_data, again.priority) == (HipqState.RUNNING, "changed", 5)
    assert house.asked == [("k", 1), ("k", 2)]
    clock.pass_(DAY)
    house.stage.drain()
    assert (house.state(job), house.hipq.job(job).error) == ("final", asked.error)


def test_a_job_whose_retry_is_still_to_be_decided_is_in_error(
    house: House, desk: Desk, clock: VirtualClock
) -> None:
    house.handle(retry=lambda job: timedelta(minutes=5))
    job = house.put(job_key="k", timeout=60)
    house.stage.drain()
    clock.pass_(60)
    run_chores(desk.clerk, "somebody without the code")
    assert house.state(job) == "error"
    house.stage.drain()
    later = house.hipq.job(job)
    assert (later.state, later.job_key) == (HipqState.RETRY, "k")
    assert later.scheduled_run_time > datetime.fromtimestamp(clock.now / 1e6, UTC)


def test_an_answer_that_spoils_the_job_sends_the_request_again(house: House) -> None:
    def response(job: HipqJob, answer: str) -> str:
        if answer == "busy":
            raise RuntimeError("they are busy")
        return answer

    house.handle(response=response, retry=lambda job: True)
    job = house.put(job_key="k")
    house.stage.drain()
    house.hipq.respond("charge", "k", "busy")
    house.stage.drain()
    assert (house.state(job), house.asked) == ("running", [("k", 1), ("k", 2)])
    house.hipq.respond("charge", "k", "done")
    house.stage.drain()
    assert (house.hipq.app.job(job).result, house.hipq.job(job).attempt) == ("done", 2)


def test_without_a_retry_function_a_failure_is_final_and_told(house: House) -> None:
    def refuse(job: HipqJob) -> None:
        raise ConnectionError("nobody there")

    house.handle(refuse)
    job = house.put()
    house.stage.drain()
    assert house.state(job) == "final"
    assert "nobody there" in house.hipq.job(job).error


@pytest.mark.parametrize("retry", ["fixed 1s x2", fixed("1s", limit=2)], ids=["text", "policy"])
def test_a_retry_may_be_a_policy_or_its_text(
    house: House, clock: VirtualClock, retry: str | RetryPolicy
) -> None:
    def response(job: HipqJob, answer: str) -> str:
        raise RuntimeError(answer)

    house.handle(response=response, retry=retry)
    job = house.put(job_key="k", timeout=60)
    house.stage.drain()
    house.hipq.respond("charge", "k", "refused")
    house.stage.drain()
    assert (house.state(job), len(house.asked)) == ("retry", 1)
    clock.pass_(1)
    house.stage.drain()
    assert (house.state(job), house.asked[1:]) == ("running", [("k", 2)])
    clock.pass_(61)  # no answer in time, and then another second
    house.stage.drain()
    clock.pass_(1)
    house.stage.drain()
    house.hipq.respond("charge", "k", "refused again")
    house.stage.drain()
    assert (house.state(job), len(house.asked)) == ("final", 3)
    assert "refused again" in house.hipq.job(job).error


@pytest.mark.parametrize(
    ("functions", "complaint"),
    [
        ({"retry": "fixed 1 second, 3 times"}, "cannot read the retry policy"),
        ({"retry": "now and then"}, "unknown retry policy 'now and then'; write one of `never`"),
        ({"retry": "custom patient"}, "takes your retry handler itself, not its name"),
        (
            {"retry": by_error({OSError: fixed("1s")}, otherwise=never())},
            "cannot go by the kind of the error",
        ),
        ({"retry": 5}, "takes a policy such as exponential"),
        ({"response": "no function"}, "the response of 'charge' must be a function, not 'no fun"),
        ({"request": 5}, "the request of 'charge' must be a function, not 5"),
    ],
)
def test_functions_that_are_none_are_refused_at_once(
    house: House, functions: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        house.handle(**functions)


def test_a_request_function_that_returns_nonsense_is_told_so(house: House) -> None:
    house.handle(lambda job: {"status": 200})
    job = house.put()
    house.stage.drain()
    assert "it must return Waits(...), None" in house.hipq.job(job).error


# -- since when --------------------------------------------------------------------------------


class Diary:
    """Tells after how many seconds a job came into its present state."""

    def __init__(self, house: House, clock: VirtualClock) -> None:
        self._house = house
        self._clock = clock
        self._began = clock.now

    def of(self, job: int) -> tuple[str, float]:
        seen = self._house.hipq.job(job)
        return seen.state.value, seen.update_time.timestamp() - self._began / 1e6

    def after(self, seconds: int, job: int) -> tuple[str, float]:
        self._clock.pass_(seconds)
        self._house.stage.drain()
        return self.of(job)


def test_a_job_tells_since_when_it_is_in_its_state(house: House, clock: VirtualClock) -> None:
    answers = iter([NOT_YET, RuntimeError("refused"), "done"])

    def response(job: HipqJob, answer: str) -> Any:
        said = next(answers)
        if isinstance(said, Exception):
            raise said
        return said

    house.handle(response=response, retry=lambda job: 10)
    diary = Diary(house, clock)
    job = house.put(job_key="k")
    clock.pass_(1)
    assert diary.of(job) == ("initial", 0)
    assert diary.after(0, job) == ("running", 1)
    clock.pass_(1)
    house.hipq.respond("charge", "k", "a part of it")
    assert diary.of(job) == diary.after(1, job) == ("running", 1)
    house.hipq.respond("charge", "k", "the rest")
    assert diary.after(1, job) == ("retry", 4)
    assert diary.after(9, job) == ("retry", 4)
    assert diary.after(1, job) == ("running", 14)
    house.hipq.respond("charge", "k", "once more")
    assert diary.after(1, job) == diary.after(100, job) == ("final", 15)


@pytest.mark.parametrize("waits", [None, Waits(timeout=20)], ids=["for the job", "for the answer"])
def test_a_job_without_an_answer_is_in_error_since_its_time_was_over(
    house: House, desk: Desk, clock: VirtualClock, waits: Waits | None
) -> None:
    house.handle(lambda job: waits, retry=lambda job: True if job.attempt == 1 else None)
    diary = Diary(house, clock)
    job = house.put(job_key="k", timeout=20 if waits is None else 60)
    house.stage.drain()
    clock.pass_(25)
    run_chores(desk.clerk, "somebody without the code")
    assert diary.of(job) == ("error", 20)
    assert house.hipq.job(job).attempt == 1
    assert diary.after(5, job) == ("running", 30)
    assert diary.after(25, job) == ("final", 55)


def test_a_job_is_to_be_tried_again_since_it_failed(house: House, clock: VirtualClock) -> None:
    def slow(job: HipqJob) -> None:
        clock.pass_(3)
        raise ConnectionError("nobody there")

    house.handle(slow, retry="fixed 10s")
    diary = Diary(house, clock)
    assert diary.after(1, house.put()) == ("retry", 4)


def test_a_job_that_begins_anew_sends_its_request_anew(house: House) -> None:
    def response(job: HipqJob, answer: str) -> str:
        if answer == "no":
            raise RuntimeError("refused")
        return answer

    house.handle(response=response)
    job = house.put(job_key="k")
    house.stage.drain()
    house.hipq.respond("charge", "k", "no")
    house.stage.drain()
    assert house.state(job) == "final"
    house.hipq.app.desk.control.revive(job)
    house.stage.drain()
    assert (house.state(job), house.asked) == ("running", [("k", 1), ("k", 1)])
    house.hipq.respond("charge", "k", "yes")
    house.stage.drain()
    assert house.hipq.app.job(job).result == "yes"
