"""`stoker explain`: what stands in a job's way, for people and for programs."""

from __future__ import annotations

from pathlib import Path

from stoker.desk import Desk
from stoker.doors.cli.explain import ADVICE
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from tests.cli.conftest import Cli, document
from tests.cli.test_explain import NOBODY, SECOND, SERVING


def test_the_command_tells_what_is_in_the_way_and_what_to_do(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue(Job("mail", "welcome"))
    jobs.control.adjust("mail", paused=True)
    assert cli("explain", "1").stdout.splitlines() == [
        "job 1, welcome in mail, is QUEUED",
        "  · the queue mail is paused",
        "      → stoker queues resume mail",
        f"  · {NOBODY.text}",
        "      → stoker worker module:app --queues mail",
        "nobody can say when it will run.",
    ]


def test_the_command_names_the_holders(cli: Cli, jobs: Desk) -> None:
    jobs.control.configure("mail", QueueSettings(capacity=12))
    jobs.intake.enqueue_many([Job("mail")] * 13)
    jobs.dispatch.claim(["mail"], 12)
    told = cli("explain", "13").stdout
    assert "\n      jobs 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more\n" in told


def test_the_command_does_not_say_that_those_it_was_told_of_are_all(cli: Cli, jobs: Desk) -> None:
    jobs.control.configure("mail", QueueSettings(capacity=1100))
    jobs.intake.enqueue_many([Job("mail")] * 1101)
    jobs.dispatch.claim(["mail"], 1000)
    jobs.dispatch.claim(["mail"], 100)
    assert " 9, 10 and at least 990 more\n" in cli("explain", "1101").stdout


def test_the_command_says_what_can_be_done_about_a_limit(cli: Cli, jobs: Desk) -> None:
    jobs.control.configure("gpu", QueueSettings(rate=parse_rate("1 per day")))
    jobs.control.configure("mail", QueueSettings(within="gpu", tasks={"resize": 1}))
    jobs.intake.enqueue_many([Job("mail", "resize")] * 2)
    jobs.dispatch.claim(["mail"])
    shown = cli("explain", "2").stdout
    assert "→ stoker queues set mail tasks.resize=N\n" in shown
    assert "which mail is within, has used up its 1 per day, until " in shown
    assert "→ stoker queues set gpu rate=N/m\n" in shown


def test_programs_get_reasons_as_stable_words(cli: Cli, jobs: Desk) -> None:
    jobs.dispatch.open_session("ann", SERVING, ttl=3600 * SECOND)
    jobs.intake.enqueue(Job("mail", due_at=1_893_456_000_000_000))
    assert document(cli("explain", "1", "--json")) == {
        "id": 1,
        "state": "QUEUED",
        "runs_at": "2030-01-01T00:00:00.000000Z",
        "blockers": [
            {
                "reason": "not_due",
                "text": "it is not due yet",
                "until": "2030-01-01T00:00:00.000000Z",
                "jobs": [],
                "more": False,
            }
        ],
    }
    assert "it will run at 2030-01-01 00:00:00 UTC (in " in cli("explain", "1").stdout


def test_with_an_app_the_command_knows_whether_the_task_is_there(cli: Cli, shop: Path) -> None:
    cli("enqueue", "--store", "sqlite:///jobs.db", "shop.gone", "--queue", "mail")
    cli("enqueue", "--store", "sqlite:///jobs.db", "shop.welcome", "--queue", "mail")
    missing, known = (cli("explain", str(n), "--app", "shop:app").stdout for n in (1, 2))
    assert "the app knows no task called 'shop.gone'" in missing
    assert "knows no task" not in known


def test_a_running_and_an_ended_job_can_be_explained_too(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue_many([Job("mail"), Job("mail")])
    jobs.dispatch.claim(["mail"])
    jobs.control.cancel(2)
    assert "it runs now, try 1, on a worker without a session" in cli("explain", "1").stdout
    assert cli("explain", "2").stdout.splitlines()[1] == "  · it has ended, CANCELLED"


def test_advice_can_be_given_for_any_job() -> None:
    facts = {"id": 1, "queue": "mail", "key": None, "parent_id": None, "task": "", "outer": None}
    assert all(advice.format(**facts) for advice in ADVICE.values())
