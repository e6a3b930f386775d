"""`stoker queues`: list, pause, resume, set, purge."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.doors.cli.words import read_settings, settings_text
from stoker.errors import BadInput
from stoker.kernel.job import Job, State
from stoker.kernel.queue import DEFAULTS, HOUR, Order, QueueSettings, Retention
from stoker.store import Filter
from tests.cli.conftest import Cli, lines


def settings(desk: Desk, queue: str) -> QueueSettings:
    return desk.store.survey([queue])[0].settings


def test_queues_are_listed_with_their_jobs_and_settings(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue_many([*[Job("mail")] * 1200, Job("files")])
    jobs.control.configure("mail", QueueSettings(capacity=5))
    jobs.dispatch.claim(["mail"], 2)
    head, files, mail = cli("queues", "list").stdout.splitlines()
    assert head.split()[:3] == ["queue", "queued", "running"]
    assert files.split() == ["files", "1", "0", "0", "0", "0", "0"]
    assert mail.split() == ["mail", "1,198", "2", "0", "0", "0", "0", "2", "capacity=5"]


def test_programs_get_queues_a_line_each(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue(Job("mail", weight=500))
    jobs.dispatch.claim(["mail"])
    assert lines(cli("queues", "list", "--json")) == [
        {
            "name": "mail",
            "counts": {
                "QUEUED": 0,
                "RUNNING": 1,
                "WAITING": 0,
                "FINISHED": 0,
                "FAILED": 0,
                "CANCELLED": 0,
            },
            "used": 0.5,
            "settings": {
                "capacity": None,
                "key_capacity": None,
                "keys": {},
                "order": "rank-time",
                "paused": False,
                "retention": {"finished": 3600.0, "failed": 2592000.0, "cancelled": 86400.0},
            },
        }
    ]


def test_a_store_without_queues_says_so(cli: Cli, jobs: Desk) -> None:
    assert "there are no queues yet" in cli("queues", "list").stderr


def test_a_queue_is_paused_and_goes_on(cli: Cli, jobs: Desk) -> None:
    jobs.control.configure("mail", QueueSettings(capacity=5))
    jobs.intake.enqueue(Job("mail"))
    assert cli("queues", "pause", "mail").stdout == "the queue mail is paused\n"
    assert settings(jobs, "mail") == QueueSettings(capacity=5, paused=True)
    assert cli("queues", "resume", "mail").stdout == "the queue mail goes on with 1 job\n"
    assert settings(jobs, "mail") == QueueSettings(capacity=5)


def test_settings_are_changed_one_by_one(cli: Cli, jobs: Desk) -> None:
    words = ["capacity=5", "key_capacity=2", "keys.ann=3", "retention.finished=1d"]
    assert cli("queues", "set", "mail", *words).stdout == (
        "mail: capacity=5 key_capacity=2 keys.ann=3 retention.finished=1d\n"
    )
    assert cli("queues", "set", "mail", "capacity=none", "order=time-rank").exit_code == 0
    assert settings(jobs, "mail") == QueueSettings(
        key_capacity=2,
        keys={"ann": 3},
        order=Order.TIME_RANK,
        retention=Retention(finished=24 * HOUR),
    )


def test_settings_make_a_queue_even_where_there_is_no_store(cli: Cli) -> None:
    words = ["queues", "set", "mail", "paused=yes", "--store", "sqlite:///new.db"]
    assert cli(*words).stdout == "mail: paused=yes\n"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("capacity", "cannot read 'capacity'; write name=value"),
        ("capacity=many", "capacity must be a number such as 5 or 2.5, or none"),
        ("capacity=0", "capacity must be more than 0; pause the queue"),
        ("order=random", "cannot set order=random"),
        ("paused=maybe", "cannot set paused=maybe"),
        ("colour=red", "cannot set colour=red; settings are capacity=5"),
        ("retention.lost=1h", "cannot set retention.lost=1h"),
        ("retention.failed=long", "cannot read the duration 'long'"),
        ("keys.=3", "cannot set keys.=3"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(
    cli: Cli, jobs: Desk, word: str, told: str
) -> None:
    result = cli("queues", "set", "mail", word)
    assert result.exit_code == 2
    assert told in result.stderr
    assert jobs.store.survey() == []


@pytest.mark.parametrize(
    "given",
    [
        DEFAULTS,
        QueueSettings(capacity=2.5, paused=True),
        QueueSettings(key_capacity=1, keys={"a.b": 2, "c": 0.5}, order=Order.TIME_RANK),
        QueueSettings(retention=Retention(finished=0, failed=None, cancelled=90_000_000)),
    ],
)
def test_what_is_shown_of_settings_can_be_set(given: QueueSettings) -> None:
    assert read_settings(DEFAULTS, settings_text(given).split()) == given


def test_an_exception_for_a_key_can_be_taken_back() -> None:
    keyed = QueueSettings(keys={"ann": 3, "bob": 1})
    assert read_settings(keyed, ["keys.ann=none"]) == QueueSettings(keys={"bob": 1})
    with pytest.raises(BadInput, match=r"keys\.ann must be a number"):
        read_settings(keyed, ["keys.ann=lots"])


def test_purging_deletes_everything_but_what_runs(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue_many([*[Job("mail")] * 700, Job("files")])
    jobs.dispatch.claim(["mail"])
    result = cli("queues", "purge", "mail", "--yes")
    assert (result.exit_code, result.stdout) == (0, "699 jobs deleted\n")
    left = jobs.store.find(Filter())
    assert [(job.queue, job.state) for job in left] == [
        ("mail", State.RUNNING),
        ("files", State.QUEUED),
    ]


def test_purging_needs_the_name_typed(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue_many([Job("mail"), Job("mail")])
    for answer in ("", "y\n", "post\n"):
        refused = cli("queues", "purge", "mail", stdin=answer)
        assert refused.exit_code == 1
        assert "this deletes 2 jobs for good; type mail to go on" in refused.stderr
        assert len(jobs.store.find(Filter())) == 2
    assert cli("queues", "purge", "mail", stdin="mail\n").stdout == "2 jobs deleted\n"


def test_purging_can_be_for_some_states_only(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue_many([Job("mail"), Job("mail")])
    jobs.control.cancel(1)
    words = ["queues", "purge", "mail", "--state", "cancelled", "--yes"]
    assert cli(*words).stdout == "1 job deleted\n"
    assert [job.id for job in jobs.store.find(Filter())] == [2]
    assert cli(*words).stdout == "0 jobs deleted\n"
