"""`stoker jobs`: list, show, cancel, retry, delete; by id and in bulk."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.doors.cli import bulk
from stoker.kernel.job import Format, Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.retry import GiveUp, failure_of
from stoker.store import Filter
from tests.cli.conftest import Cli, document, lines


def states(desk: Desk) -> list[State]:
    return [job.state for job in desk.store.find(Filter(limit=10_000))]


def enqueue(desk: Desk, *jobs: Job) -> None:
    desk.intake.enqueue_many(jobs)


def fail(desk: Desk, queue: str, error: Exception) -> None:
    (job,) = desk.dispatch.claim([queue])
    desk.report.fail(job, failure_of(error), verdict=GiveUp())


# --- Looking -------------------------------------------------------------------------------------


def test_jobs_are_listed_in_order_of_arrival(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail", "welcome", key="ann"), Job("files", "import"))
    fail(jobs, "mail", OSError("the wire is cut\nTraceback ..."))
    head, first, second = cli("jobs", "list").stdout.splitlines()
    assert head.split() == ["id", "state", "queue", "name", "key", "when", "try", "note"]
    assert first.split()[:5] == ["1", "FAILED", "mail", "welcome", "ann"]
    assert first.endswith("the wire is cut")
    assert second.split()[:4] == ["2", "QUEUED", "files", "import"]


def test_columns_that_would_be_empty_are_left_out(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail"))
    assert cli("jobs", "list").stdout.splitlines()[0].split() == ["id", "state", "queue", "when"]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ([], [1, 2, 3, 4]),
        (["--newest"], [4, 3, 2, 1]),
        (["--limit", "2"], [1, 2]),
        (["--limit", "2", "--after", "2"], [3, 4]),
        (["--newest", "--after", "3"], [2, 1]),
        (["--queue", "files"], [3, 4]),
        (["--name", "welcome"], [1, 2]),
        (["--key", "ann"], [1]),
        (["--state", "failed"], [1]),
        (["--state", "FAILED", "--state", "queued"], [1, 2, 3, 4]),
        (["--state", "failed,queued", "--queue", "mail"], [1, 2]),
    ],
)
def test_the_list_shows_what_is_asked_for(
    cli: Cli, jobs: Desk, words: list[str], ids: list[int]
) -> None:
    enqueue(jobs, Job("mail", "welcome", key="ann"), Job("mail", "welcome"))
    enqueue(jobs, Job("files", "import"), Job("files", "export"))
    fail(jobs, "mail", OSError())
    assert [job["id"] for job in lines(cli("jobs", "list", "--json", *words))] == ids


def test_a_full_page_tells_how_to_go_on(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail"), Job("mail"), Job("mail"))
    assert cli("jobs", "list", "--limit", "2").stderr == "there may be more: --after 2\n"
    assert cli("jobs", "list", "--limit", "4").stderr == ""


def test_an_empty_list_says_so_beside_the_answer(cli: Cli, jobs: Desk) -> None:
    result = cli("jobs", "list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no such jobs\n")
    assert lines(cli("jobs", "list", "--json")) == []


def test_a_job_is_shown_with_all_that_is_known_of_it(cli: Cli, jobs: Desk) -> None:
    policy = Policy(timeout=90_000_000, repeat="every 5m")
    enqueue(jobs, Job("mail", "welcome", b'{"to": "ann"}', key="ann", rank=3, policy=policy))
    told = cli("jobs", "show", "1").stdout
    for line in (
        "rank         3",
        "key          ann",
        "timeout      90 s",
        "repeat       every 5m",
    ):
        assert f"\n{line}\n" in told
    assert '"to": "ann"' in told


def test_the_evidence_of_a_failure_is_shown_whole(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail"))
    fail(jobs, "mail", OSError("no route\n" + "x" * 200))
    assert cli("jobs", "show", "1").stdout.endswith("error\nno route\n" + "x" * 200 + "\n")


def test_programs_get_fields_with_names_that_stay(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail", "welcome", b'{"to":"ann"}', weight=500, due_at=1_893_456_000_000_000))
    told = document(cli("jobs", "show", "1", "--json"))
    assert set(told) == {
        *("id", "state", "queue", "name", "key", "unique_key", "ref", "meta", "rank", "attempt"),
        *("crashes", "progress", "waits_for", "parent_id", "cancel_requested", "revision"),
        *("created_at", "scheduled_at", "due_at", "started_at", "ended_at", "until", "weight"),
        *("children", "session", "format", "payload", "result", "reply", "error", "policy"),
    }
    assert told["state"] == "QUEUED"
    assert told["due_at"] == "2030-01-01T00:00:00.000000Z"
    assert told["payload"] == {"to": "ann"}
    assert told["weight"] == 0.5
    assert told["policy"] == {
        "timeout": 86400.0,
        "on_lost": "requeue",
        "crash_limit": 3,
        "retry": "never",
        "repeat": None,
        "windows": None,
        "retention": None,
    }


@pytest.mark.parametrize(
    ("payload", "kind", "told"),
    [
        (b"\xff\x00", Format.BYTES, "/wA="),
        ("süß".encode(), Format.TEXT, "süß"),
        (b"no json", Format.JSON, "no json"),
        (b"\xff", Format.JSON, "/w=="),
        (b'"\xff"', Format.JSON, "Iv8i"),
    ],
)
def test_any_payload_can_be_shown(
    cli: Cli, jobs: Desk, payload: bytes, kind: Format, told: str
) -> None:
    enqueue(jobs, Job("mail", payload=payload, format=kind))
    assert document(cli("jobs", "show", "1", "--json"))["payload"] == told
    assert cli("jobs", "show", "1").stdout.endswith(f"payload      {told}\n")


def test_no_digit_of_a_payload_is_lost(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail", payload=b'{"n":\n 123456789012345678901234567890, "x": 1.10}'))
    told = cli("jobs", "list", "--json").stdout
    assert '"payload":{"n":123456789012345678901234567890,"x":1.10},' in told
    assert told.count("\n") == 1
    assert '"n": 123456789012345678901234567890,' in cli("jobs", "show", "1").stdout


# --- Acting --------------------------------------------------------------------------------------


def test_jobs_are_cancelled_by_id(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail"), Job("mail"), Job("files"))
    jobs.dispatch.claim(["files"])
    result = cli("jobs", "cancel", "2", "3")
    assert result.exit_code == 0
    assert result.stdout == ("job 2 was cancelled\njob 3 is running and was asked to stop\n")
    assert states(jobs) == [State.QUEUED, State.CANCELLED, State.RUNNING]


def test_one_id_that_is_wrong_does_not_spoil_the_others(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail"), Job("mail"))
    result = cli("jobs", "cancel", "98", "1", "99", "2")
    assert result.exit_code == 3
    assert result.stdout == "job 1 was cancelled\njob 2 was cancelled\n"
    assert sorted(result.stderr.splitlines()) == [
        "stoker: error: there is no job 98",
        "stoker: error: there is no job 99",
    ]


def test_ended_jobs_run_again(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail"))
    fail(jobs, "mail", OSError())
    assert cli("jobs", "retry", "1").stdout == "job 1 was queued again\n"
    assert states(jobs) == [State.QUEUED]


def test_jobs_are_deleted_but_not_while_they_run(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail"), Job("files"))
    jobs.dispatch.claim(["files"])
    result = cli("jobs", "delete", "1", "2")
    assert (result.exit_code, result.stdout) == (1, "job 1 was deleted\n")
    assert "cannot delete job 2: it is RUNNING" in result.stderr
    assert states(jobs) == [State.RUNNING]


def test_it_must_be_said_which_jobs_are_meant(cli: Cli, jobs: Desk) -> None:
    nobody, both = cli("jobs", "cancel"), cli("jobs", "cancel", "1", "--all")
    assert (nobody.exit_code, both.exit_code) == (2, 2)
    assert "which jobs? Give ids, --state, --queue, --name, --key or --all" in nobody.stderr
    assert "give ids, or options that say which jobs; not both" in both.stderr


def test_a_filter_acts_on_all_that_fit_after_asking(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, *[Job("mail")] * 3, Job("files"))
    refused = cli("jobs", "cancel", "--queue", "mail", stdin="n\n")
    assert refused.exit_code == 1
    assert "cancel 3 jobs (QUEUED, RUNNING, WAITING)? [y/N]: " in refused.stderr
    assert states(jobs) == [State.QUEUED] * 4
    done = cli("jobs", "cancel", "--queue", "mail", stdin="y\n")
    assert (done.exit_code, done.stdout) == (0, "3 jobs cancelled\n")
    assert states(jobs) == [*[State.CANCELLED] * 3, State.QUEUED]


def test_no_answer_is_a_no(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail"))
    result = cli("jobs", "cancel", "--all", stdin="")
    assert result.exit_code == 1
    assert "nothing was done; answer y, or say --yes" in result.stderr
    assert states(jobs) == [State.QUEUED]


def test_yes_needs_no_answer(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, *[Job("mail")] * 1200)
    result = cli("jobs", "cancel", "--all", "--yes")
    assert (result.exit_code, result.stdout) == (0, "1,200 jobs cancelled\n")
    assert set(states(jobs)) == {State.CANCELLED}


def test_retrying_in_bulk_means_failed_jobs_and_deleting_means_ended_ones(
    cli: Cli, jobs: Desk
) -> None:
    enqueue(jobs, *[Job("mail")] * 3)
    jobs.control.cancel(3)
    fail(jobs, "mail", OSError())
    assert cli("jobs", "retry", "--all", "--yes").stdout == "1 job queued again\n"
    assert states(jobs) == [State.QUEUED, State.QUEUED, State.CANCELLED]
    assert cli("jobs", "delete", "--all", "--yes").stdout == "1 job deleted\n"
    assert states(jobs) == [State.QUEUED, State.QUEUED]
    assert cli("jobs", "delete", "--state", "queued", "--yes").stdout == "2 jobs deleted\n"
    assert states(jobs) == []


def test_nothing_that_fits_is_no_error(cli: Cli, jobs: Desk) -> None:
    result = cli("jobs", "retry", "--all", "--yes")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no jobs fit; the states meant are FAILED\n"


def test_what_is_refused_in_bulk_is_told(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs, Job("mail"), Job("mail"))
    jobs.dispatch.claim(["mail"])
    result = cli("jobs", "delete", "--state", "queued,running", "--yes")
    assert (result.exit_code, result.stdout) == (1, "1 job deleted\n")
    assert "1 job could not be; the first: cannot delete job 1: it is RUNNING" in result.stderr


def test_jobs_that_arrive_meanwhile_are_left_alone(jobs: Desk) -> None:
    enqueue(jobs, *[Job("mail")] * 700)
    everything = Filter(states=(State.QUEUED,))
    done, errors = bulk.everywhere(
        jobs, bulk.DELETE, everything, lambda _: enqueue(jobs, *[Job("mail")] * 600)
    )
    assert (done, errors) == (700, [])
    assert len(jobs.store.find(Filter(limit=10_000))) == 1200
