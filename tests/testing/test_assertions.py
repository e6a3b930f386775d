"""The harness's assertions: what they see, and what they say when it is not so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from stoker import Job, State, Stoker, current, fixed
from stoker.client.task import Task
from stoker.errors import BadInput
from stoker.testing import Harness, harness


@pytest.fixture
def app() -> Stoker:
    return Stoker("memory:")


@pytest.fixture
def stoker(app: Stoker) -> Iterator[Harness]:
    with harness(app, start=datetime(2030, 1, 1, tzinfo=UTC)) as stoker:
        yield stoker


@pytest.fixture
def mail(app: Stoker) -> Task[[str, str], str]:
    @app.task(name="mail", queue="post", retry=fixed("10s", limit=1))
    def mail(to: str, text: str = "hello") -> str:
        if to == "nobody":
            raise LookupError("nobody lives here")
        return f"{text} {to}"

    return mail


Mail = Task[[str, str], str]


# -- jobs ----------------------------------------------------------------------------------


def test_jobs_are_listed_by_what_is_known_of_them(app: Stoker, stoker: Harness, mail: Mail) -> None:
    other = app.task(name="other")(lambda: None)
    first, second = mail.enqueue("ann", "hi"), mail.enqueue("bob", "hi")
    second.cancel()
    third = other.enqueue()
    assert [job.id for job in stoker.jobs()] == [first.id, second.id, third.id]
    assert [job.id for job in stoker.jobs(State.QUEUED)] == [first.id, third.id]
    assert [job.id for job in stoker.jobs(name=mail)] == [first.id, second.id]
    assert [job.id for job in stoker.jobs(State.QUEUED, "mail")] == [first.id]
    assert [job.id for job in stoker.jobs(queue="default")] == [third.id]


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"state": "FAILED"}, "state= takes a State, such as State.FAILED, not 'FAILED'"),
        ({"name": len}, "name= takes a task or its name, not <built-in function len>"),
        ({"queue": 7}, "queue= takes the name of a queue, not 7"),
    ],
)
def test_what_no_job_can_be_is_not_looked_for(
    stoker: Harness, facts: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        stoker.jobs(**facts)


def test_more_jobs_than_a_page_are_listed(stoker: Harness, app: Stoker, mail: Mail) -> None:
    app.enqueue_many([mail.call(str(number), "hi") for number in range(250)])
    assert len(stoker.jobs()) == 250


# -- enqueued ------------------------------------------------------------------------------


def test_a_task_may_be_told_by_its_name(stoker: Harness, mail: Mail) -> None:
    job = mail.enqueue("ann", "hi")
    assert [found.id for found in stoker.assert_enqueued("mail", args=("ann", "hi"))] == [job.id]
    with pytest.raises(BadInput, match="no task is called 'letter'; known: mail"):
        stoker.assert_enqueued("letter")


def test_an_enqueued_job_is_found_by_its_arguments(stoker: Harness, mail: Mail) -> None:
    first = mail.enqueue("ann", "hi")
    mail.options(delay="1h").enqueue("bob", "hi")
    (found,) = stoker.assert_enqueued(mail, args=("ann", "hi"))
    assert found.id == first.id
    stoker.assert_enqueued(mail, args={"text": "hi", "to": "bob"})
    stoker.assert_enqueued(mail, args=["bob", "hi"], count=1)
    stoker.assert_enqueued(mail, count=2)
    stoker.assert_enqueued(mail, args=("cleo",), count=0)
    stoker.drain()
    assert found.result == "hi ann"


def test_the_arguments_of_a_raw_task_are_compared_as_they_are(stoker: Harness, app: Stoker) -> None:
    @app.task(raw=True, name="note")
    def note(data: bytes) -> None: ...

    note.enqueue(b"\xff")
    stoker.assert_enqueued(note, args=(b"\xff",), count=1)
    stoker.assert_enqueued(note, args=(b"\xfe",), count=0)


def test_a_job_that_has_ended_is_not_enqueued(stoker: Harness, mail: Mail) -> None:
    mail.enqueue("ann", "hi")
    stoker.drain()
    with pytest.raises(AssertionError, match="expected a job of mail to be enqueued, found 0"):
        stoker.assert_enqueued(mail)


def test_what_is_there_instead_is_told(stoker: Harness, app: Stoker, mail: Mail) -> None:
    mail.enqueue("ann", "hi")
    mail.options(delay="90s").enqueue("nobody", "hi")
    with pytest.raises(AssertionError) as caught:
        stoker.assert_enqueued(mail, args=("bob", "hi"))
    assert str(caught.value) == (
        "expected a job of mail with ('bob', 'hi') to be enqueued, found 0; there are:\n"
        '  job 1 QUEUED mail {"to":"ann","text":"hi"}\n'
        '  job 2 QUEUED mail {"to":"nobody","text":"hi"}, due in 1m30s'
    )


def test_a_wrong_number_is_told(stoker: Harness, mail: Mail) -> None:
    mail.enqueue("ann", "hi")
    with pytest.raises(AssertionError, match="expected 2 jobs of mail to be enqueued, found 1; th"):
        stoker.assert_enqueued(mail, count=2)


def test_that_there_is_nothing_at_all_is_told(stoker: Harness, mail: Mail) -> None:
    with pytest.raises(AssertionError, match="found 0; there are no jobs at all"):
        stoker.assert_enqueued(mail)


# -- finished and failed -------------------------------------------------------------------


def test_a_finished_job_gives_its_result(stoker: Harness, mail: Mail) -> None:
    job = mail.enqueue("ann", "hi")
    stoker.drain()
    assert stoker.assert_finished(job) == "hi ann"


def test_a_job_that_did_not_finish_shows_its_error(stoker: Harness, mail: Mail) -> None:
    job = mail.enqueue("nobody", "hi")
    stoker.drain()
    with pytest.raises(AssertionError) as caught:
        stoker.assert_finished(job)
    first, second, *rest = str(caught.value).splitlines()
    assert first.startswith("expected job 1 (mail) to be FINISHED: job 1 QUEUED mail ")
    assert first.endswith("due in 10s, after try 1, LookupError: nobody lives here")
    assert second == "LookupError: nobody lives here"
    assert "Traceback (most recent call last):" in rest


def test_a_failed_job_gives_its_error(stoker: Harness, mail: Mail) -> None:
    job = mail.enqueue("nobody", "hi")
    stoker.run_for("10s")
    error = stoker.assert_failed(job)
    assert error == stoker.assert_failed(job, match="nobody lives here")
    assert error.startswith("LookupError: nobody lives here\nTraceback")


def test_a_job_that_failed_otherwise_shows_how(stoker: Harness, mail: Mail) -> None:
    job = mail.enqueue("nobody", "hi")
    stoker.run_for("10s")
    with pytest.raises(AssertionError, match="job 1 failed, but not with 'fire':\nLookupError"):
        stoker.assert_failed(job, match="fire")


def test_a_job_that_has_not_failed_is_told(stoker: Harness, mail: Mail) -> None:
    job = mail.enqueue("ann", "hi")
    with pytest.raises(AssertionError, match="to be FAILED: job 1 QUEUED mail"):
        stoker.assert_failed(job)


# -- nothing failed ------------------------------------------------------------------------


def test_nothing_has_failed_when_all_went_well_in_the_end(stoker: Harness, app: Stoker) -> None:
    @app.task(name="flaky", retry=fixed("10s", limit=1))
    def flaky() -> None:
        if current().attempt == 1:
            raise OSError("no luck")

    flaky.enqueue()
    stoker.drain()
    with pytest.raises(AssertionError) as caught:
        stoker.assert_nothing_failed()
    assert str(caught.value).splitlines()[:3] == [
        "1 job went wrong; there are:",
        "  job 1 QUEUED flaky {}, due in 10s, after try 1, OSError: no luck",
        "OSError: no luck",
    ]
    stoker.run_for("10s")
    stoker.assert_nothing_failed()


def test_a_failed_job_and_one_without_a_task_are_told(
    stoker: Harness, app: Stoker, mail: Mail
) -> None:
    mail.enqueue("nobody", "hi")
    app.desk.intake.enqueue(Job("post", "gone"))
    mail.enqueue("ann", "hi").cancel()
    stoker.run_for("10s")
    with pytest.raises(AssertionError, match="2 jobs went wrong; there are:") as caught:
        stoker.assert_nothing_failed()
    assert "the app has no task called 'gone'" in str(caught.value)


# -- nothing left --------------------------------------------------------------------------


def test_nothing_is_left_when_all_jobs_have_ended(stoker: Harness, mail: Mail) -> None:
    mail.enqueue("ann", "hi")
    mail.enqueue("nobody", "hi")
    with pytest.raises(AssertionError, match="2 jobs are left; there are:"):
        stoker.assert_nothing_left()
    stoker.drain()
    with pytest.raises(AssertionError, match=r"1 job is left; .*\n  job 2 QUEUED .*due in 10s"):
        stoker.assert_nothing_left()
    stoker.run_for("10s")
    stoker.assert_nothing_left()


def test_a_waiting_job_is_left(stoker: Harness, app: Stoker) -> None:
    @app.task(name="ask")
    def ask() -> None:
        current().wait_for_reply("answer")

    ask.enqueue()
    stoker.drain()
    with pytest.raises(AssertionError, match=r"WAITING ask {}, after try 1, waits for reply:an"):
        stoker.assert_nothing_left()


def test_a_schedule_is_not_left(stoker: Harness, app: Stoker) -> None:
    app.task(repeat="every 10m")(lambda: None)
    app.ensure_schedules()
    stoker.assert_nothing_left()


def test_many_jobs_are_not_all_shown(stoker: Harness, app: Stoker, mail: Mail) -> None:
    app.enqueue_many([mail.call(str(number), "hi") for number in range(12)])
    with pytest.raises(AssertionError) as caught:
        stoker.assert_nothing_left()
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (12, "  ... and 2 more")
