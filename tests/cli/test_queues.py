"""`stoker queues`: list, show, pause, resume, set, purge."""

from __future__ import annotations

import shlex

import pytest

from stoker.desk import Desk
from stoker.desk.throttle_memory import Memory, remember
from stoker.doors.cli.settings import changed, settings_text
from stoker.errors import BadInput
from stoker.kernel.hours import parse_maintenance
from stoker.kernel.job import Job, State
from stoker.kernel.queue import DEFAULTS, HOUR, Order, QueueSettings, Retention
from stoker.kernel.rate import parse_rate
from stoker.kernel.window import parse_windows
from stoker.store import Filter
from tests.cli.conftest import Cli, document, lines


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
                "tasks": {},
                "shares": {},
                "lend": False,
                "rate": None,
                "key_rate": None,
                "key_rates": {},
                "task_rates": {},
                "within": None,
                "fair": False,
                "turns": {},
                "ageing": None,
                "windows": None,
                "maintenance": [],
                "throttled": False,
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
        (
            "capacity=",
            "capacity= says nothing; write a value, or capacity=none to take a limit away",
        ),
        ("keys.ann=", "keys.ann= says nothing; write a value, or keys.ann=none"),
        ("within= ", "says nothing; write a value, or within=none"),
        ("keys.=5", "cannot set keys.=5; settings are capacity=5"),
        ("windows=", "windows= says nothing; write a value, or windows=none"),
        ("retention.failed=", "says nothing"),
        ("capacity=1e30", "capacity must be a number from 0 to 1,000,000,000, not 1e+30"),
        ("keys.ann=inf", "keys['ann'] must be a number from 0 to 1,000,000,000, not inf"),
        ("tasks.a=nan", "tasks['a'] must be a number from 0 to 1,000,000,000, not nan"),
        ("rate=9999999999/s", "the amount of a rate must be a number from 0 to 1,000,000,000"),
        ("rate=1/s, burst 9999999999", "the burst of a rate must be a number from 0 to"),
        ("retention.finished=9999999999d", "longer than 1,000 years: give a shorter one"),
        ("order=random", "cannot set order=random"),
        ("paused=maybe", "cannot set paused=maybe"),
        ("colour=red", "cannot set colour=red; settings are capacity=5"),
        ("retention.lost=1h", "cannot set retention.lost=1h"),
        ("retention.failed=long", "cannot read the duration 'long'"),
        ("keys.=3", "cannot set keys.=3"),
        ("keys=3", "cannot set keys=3"),
        ("rate=often", "cannot read the rate 'often': write it like 100 per minute"),
        ("task_rates.resize=5", "cannot read the rate '5'"),
        ("fair=1", "cannot set fair=1"),
        ("ageing=soon", "cannot read the duration 'soon'"),
        ("shares.east=40", "shares are parts of a capacity; give the queue one"),
        ("within=mail", "the queue 'mail' cannot be within itself"),
        ("windows=nightly", 'cannot read "nightly" in the windows'),
        ("maintenance=sun", 'no times after "sun"'),
        ("throttled=", "throttled= says nothing; write a value, or throttled=none"),
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
        QueueSettings(
            capacity=1234567.125,
            tasks={"resize": 2},
            shares={"north east": 40},
            lend=True,
            rate=parse_rate("100 per minute"),
            key_rate=parse_rate("5/10s, fixed"),
            key_rates={"ann": parse_rate("10/s, burst 50")},
            task_rates={"resize": parse_rate("1/s")},
            within="all of it",
            fair=True,
            turns={"gold": 3},
            ageing=600_000_000,
        ),
        QueueSettings(
            windows=parse_windows("mon-fri 08:00-18:00 in Europe/Berlin except 2027-12-24"),
            maintenance=(
                parse_maintenance("sun 02:00-04:00, drain 30m"),
                parse_maintenance("2027-03-28 02:00 to 2027-03-28 04:00"),
            ),
            throttled=True,
        ),
    ],
)
def test_what_is_shown_of_settings_can_be_set(given: QueueSettings) -> None:
    assert changed(DEFAULTS, shlex.split(settings_text(given))) == given


def test_an_exception_for_a_key_can_be_taken_back() -> None:
    keyed = QueueSettings(keys={"ann": 3, "bob": 1})
    assert changed(keyed, ["keys.ann=none"]) == QueueSettings(keys={"bob": 1})
    with pytest.raises(BadInput, match=r"keys\.ann must be a number"):
        changed(keyed, ["keys.ann=lots"])


def test_limits_are_taken_away_as_they_were_set(cli: Cli, jobs: Desk) -> None:
    words = ["shares.east=40", "capacity=10", "rate=100 per minute", "key_rates.ann=5/s"]
    words += ["tasks.resize=2", "task_rates.resize=1/s", "within=gpu", "lend=yes", "ageing=10m"]
    assert cli("queues", "set", "mail", *words, "fair=yes", "turns.gold=3").exit_code == 0
    none = ["shares=none", "capacity=none", "rate=none", "key_rates.ann=none", "tasks.resize=none"]
    hours = ["windows=22:00-06:00", "maintenance=sun 02:00-04:00", "throttled=yes"]
    assert cli("queues", "set", "mail", *hours).exit_code == 0
    none += ["windows=none", "maintenance=none", "throttled=no"]
    none += ["task_rates=none", "within=none", "lend=no", "ageing=none", "fair=no", "turns=none"]
    assert cli("queues", "set", "mail", *none).stdout == "mail: as usual\n"
    assert settings(jobs, "mail") == DEFAULTS


def test_a_throttler_is_shown_with_its_state_and_what_went_wrong(cli: Cli, jobs: Desk) -> None:
    cli("queues", "set", "mail", "throttled=yes")
    jobs.clerk.transact([remember("mail", Memory(state=[1, 2], error="KeyError: 'east'"), 0)])
    shown = cli("queues", "show", "mail").stdout
    assert "throttler fails" in shown
    assert "KeyError: 'east'" in shown
    assert "[1, 2]" in shown
    told = document(cli("queues", "show", "mail", "--json"))
    assert told["throttler"] == {"error": "KeyError: 'east'", "state": [1, 2]}
    cli("queues", "set", "mail", "throttled=no")
    assert document(cli("queues", "show", "mail", "--json"))["throttler"] is None
    assert "throttler" not in cli("queues", "show", "mail").stdout


def test_a_queue_is_shown_line_by_line(cli: Cli, jobs: Desk) -> None:
    words = ["capacity=5", "rate=100/m", "keys.ann=2"]
    cli("queues", "set", "gpu", *words)
    cli("queues", "set", "train", "within=gpu")
    jobs.intake.enqueue_many([Job("gpu"), Job("train")])
    jobs.dispatch.claim(["gpu", "train"], 2)
    shown = [line.split(maxsplit=1) for line in cli("queues", "show", "gpu").stdout.splitlines()]
    assert shown[0] == ["queue", "gpu"]
    assert ["RUNNING", "1"] in shown
    assert shown[-5:] == [
        ["used", "2"],
        ["capacity", "5"],
        ["keys.ann", "2"],
        ["rate", "100 per minute"],
        ["within", "it  train"],
    ]
    listed = lines(cli("queues", "list", "--json"))[0]
    assert document(cli("queues", "show", "gpu", "--json")) == {**listed, "throttler": None}
    assert "there is no queue 'cpu'; there are: gpu, train" in cli("queues", "show", "cpu").stderr


def test_what_a_queue_uses_counts_those_within_it(cli: Cli, jobs: Desk) -> None:
    jobs.control.configure("gpu", QueueSettings(capacity=5))
    jobs.control.configure("train", QueueSettings(within="gpu"))
    jobs.intake.enqueue_many([Job("train"), Job("train")])
    jobs.dispatch.claim(["train"], 2)
    _, gpu, train = cli("queues", "list").stdout.splitlines()
    assert gpu.split()[-2:] == ["2", "capacity=5"]
    assert train.split()[-2:] == ["2", "within=gpu"]


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


def test_a_state_that_says_nothing_does_not_stand_for_all(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue(Job("mail"))
    result = cli("queues", "purge", "mail", "--state", "", "--yes")
    assert (result.exit_code, "there is no state ''" in result.stderr) == (2, True)
    assert len(jobs.store.find(Filter())) == 1


def test_a_queue_without_a_name_cannot_be_set_up(cli: Cli, jobs: Desk) -> None:
    result = cli("queues", "set", "", "capacity=5")
    assert (result.exit_code, "queue cannot be empty" in result.stderr) == (2, True)
    assert jobs.store.survey() == []


def test_purging_can_be_for_some_states_only(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue_many([Job("mail"), Job("mail")])
    jobs.control.cancel(1)
    words = ["queues", "purge", "mail", "--state", "cancelled", "--yes"]
    assert cli(*words).stdout == "1 job deleted\n"
    assert [job.id for job in jobs.store.find(Filter())] == [2]
    assert cli(*words).stdout == "0 jobs deleted\n"
