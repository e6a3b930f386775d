"""The app: which store it works with, and when it opens it; settings and replies."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from stoker import Context, Desk, Order, QueueSettings, Rate, Retention, State, Stoker, open_store
from stoker.errors import BadInput
from stoker.store.memory import MemoryStore
from stoker.store.sqlite import SqliteStore
from stoker.testing import Harness

MODULE = """
from stoker import Stoker

app = Stoker()

@app.task(repeat="every 5m", queue="mail")
def welcome(user: int = 0) -> str:
    return f"hello {user}"

call = welcome.options(rank=3, unique="x").call(7)
"""


# -- the store -----------------------------------------------------------------------------


def test_importing_a_module_with_tasks_touches_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STOKER_STORE", raising=False)
    names: dict[str, Any] = {"__name__": "shop"}
    exec(MODULE, names)  # noqa: S102
    assert list(tmp_path.iterdir()) == []
    names["welcome"].enqueue(1)
    assert (tmp_path / "stoker.db").is_file()
    names["app"].close()


def test_the_environment_names_the_store_of_an_app_that_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STOKER_STORE", "memory:")
    assert Stoker().url == "memory:"
    assert isinstance(Stoker().desk.store, MemoryStore)
    assert Stoker("sqlite:///own.db").url == "sqlite:///own.db"


def test_without_a_word_the_store_is_a_file_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("STOKER_STORE", raising=False)
    assert Stoker().url == "sqlite:///stoker.db"


def test_a_wrong_url_is_refused_when_the_store_is_needed() -> None:
    app = Stoker("carrier-pigeon:")
    with pytest.raises(BadInput, match="no store is called 'carrier-pigeon:'"):
        _ = app.desk


def test_jobs_outlive_the_app_that_enqueued_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    first, second = Stoker(url), Stoker(url)
    for app in (first, second):
        app.task(name="double")(lambda number: 2 * number)
    job_id = first["double"].enqueue(21).id
    first.close()
    assert isinstance(second.desk.store, SqliteStore)
    assert second.job(job_id).job.payload == b'{"number":21}'
    second.close()


def test_a_closed_app_opens_its_store_again_when_it_is_needed(tmp_path: Path) -> None:
    app = Stoker(f"sqlite:///{tmp_path}/jobs.db")
    job = app.task(lambda: None).enqueue()
    app.close()
    app.close()
    assert job.state is State.QUEUED
    app.close()


def test_threads_that_need_the_store_first_open_it_once() -> None:
    app = Stoker("memory:")
    start, desks = threading.Barrier(8), list[Desk]()

    def need() -> None:
        start.wait()
        desks.append(app.desk)

    threads = [threading.Thread(target=need) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(desks) == 8
    assert len({id(desk) for desk in desks}) == 1


def test_an_app_may_sit_at_another_desk_for_a_while() -> None:
    app, other = Stoker("memory:"), Desk(open_store("memory:"))
    own = app.desk
    assert app.sit_at(other) is own
    assert app.desk is other
    assert app.sit_at(own) is other
    assert app.desk is own


# -- settings of queues --------------------------------------------------------------------


def test_some_settings_are_changed_and_the_rest_is_kept(app: Stoker) -> None:
    app.configure("mail", capacity=2.5, paused=True)
    app.configure("mail", paused=False)
    expected = QueueSettings(capacity=2.5)
    assert app.configure("mail") == expected
    assert app.desk.store.survey(["mail"])[0].settings == expected


def test_settings_are_given_as_values_or_as_plain_data(app: Stoker) -> None:
    retention = Retention(finished=0, failed=None)
    given = app.configure("mail", order=Order.TIME_RANK, retention=retention, keys={"ann": 2})
    plain = app.configure(
        "post", order="time-rank", retention={"finished": 0, "failed": None}, keys={"ann": 2}
    )
    assert (
        given == plain == QueueSettings(order=Order.TIME_RANK, retention=retention, keys={"ann": 2})
    )
    assert app.desk.store.survey(["post"])[0].settings == plain


def test_rates_and_times_are_given_as_text(app: Stoker) -> None:
    app.configure("api", capacity=10)
    app.configure("api", rate="100 per minute", key_rate=Rate(5, 1_000_000))
    app.configure("api", key_rates={"ann": "10/s"}, task_rates={"resize": "1 per 10s, fixed"})
    app.configure("api", shares={"east": 40}, lend=True, fair=True, turns={"gold": 3}, ageing="10m")
    assert app.configure("api", tasks={"resize": 2}, within="gpu") == QueueSettings(
        capacity=10,
        rate=Rate(100, 60_000_000),
        key_rate=Rate(5, 1_000_000),
        key_rates={"ann": Rate(10, 1_000_000)},
        task_rates={"resize": Rate(1, 10_000_000, fixed=True)},
        shares={"east": 40},
        lend=True,
        fair=True,
        turns={"gold": 3},
        ageing=600_000_000,
        tasks={"resize": 2},
        within="gpu",
    )
    assert app.configure("api", rate=None, ageing=None, within=None).rate is None


def test_queues_are_within_others_one_deep(app: Stoker) -> None:
    app.configure("inner", within="outer")
    with pytest.raises(BadInput, match="put 'inner' within 'world' first"):
        app.configure("outer", within="world")
    with pytest.raises(BadInput, match=r"'inner' is within 'outer' itself.*put 'core' within"):
        app.configure("core", within="inner")
    assert app.configure("inner", within="world").within == "world"


def test_settings_are_in_force_at_once(app: Stoker, stoker: Harness) -> None:
    task = app.task(queue="mail")(lambda: None)
    app.configure("mail", paused=True)
    task.enqueue()
    assert stoker.drain() == 0
    app.configure("mail", paused=False)
    assert stoker.drain() == 1


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"capacty": 1}, "a queue has no capacty; it has capacity, key_capacity, keys, order"),
        ({"capacity": "much"}, "capacity cannot be set to 'much': Expected `float | null`"),
        ({"rate": 5}, "a rate is a text such as 100 per minute, not 5"),
        ({"key_rates": {"ann": "often"}}, "cannot read the rate 'often'"),
        ({"ageing": "a while"}, "cannot read the duration 'a while'"),
        ({"shares": {"east": 60, "west": 60}}, "cannot be more than 100 in all"),
        ({"within": "mail"}, "the queue 'mail' cannot be within itself"),
        ({"capacity": 0}, "capacity must be more than 0; pause the queue"),
        ({"capacity": 10**30}, "capacity must be a number from 0 to 1,000,000,000"),
        ({"turns": {"ann": 2**63}}, r"turns\['ann'\] must be a number from 0 to 1,000,000,000"),
        ({"rate": "1 per 2 years"}, "cannot read the rate '1 per 2 years'"),
        ({"rate": "1 per 9999d"}, "the period of a rate must be between a millisecond and a year"),
        ({"rate": "1/d, burst 1e5"}, "cannot read the rate '1/d, burst 1e5'"),
        ({"rate": "1/d, burst 100000"}, "a burst must come again within 100 years"),
        ({"ageing": 10**30}, "longer than 1,000 years"),
        ({"order": "random"}, "Invalid enum value 'random'"),
        ({"keys": {"ann": -1}}, r"keys\['ann'\] must be a number from 0 to"),
        ({"retention": {"finished": -1}}, "retention.finished must be from 0 to 1,000 years"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_settings_are_refused_and_change_nothing(
    app: Stoker, settings: dict[str, Any], complaint: str
) -> None:
    app.configure("mail", capacity=3)
    with pytest.raises(BadInput, match=complaint):
        app.configure("mail", **settings)
    assert app.configure("mail") == QueueSettings(capacity=3)


# -- replies -------------------------------------------------------------------------------


def test_a_reply_goes_to_the_job_that_waits_for_it(app: Stoker, stoker: Harness) -> None:
    @app.task
    def ask(ctx: Context) -> str:
        answer = ctx.wait_for_reply("payment 7", as_type=dict[str, bool])
        return "paid" if answer["paid"] else "not paid"

    job = ask.enqueue()
    stoker.drain()
    assert (job.state, job.job.waits_for) == (State.WAITING, "reply:payment 7")
    assert app.reply("payment 7", {"paid": True}) == "delivered"
    stoker.drain()
    assert job.result == "paid"


def test_a_reply_nobody_waits_for_is_kept_a_while(app: Stoker) -> None:
    assert app.reply("early", 1) == "kept"
    assert app.reply("early", 2) == "repeated"


def test_bytes_are_a_reply_as_they_are(app: Stoker, stoker: Harness) -> None:
    @app.task
    def ask(ctx: Context) -> list[int]:
        return ctx.wait_for_reply("numbers", as_type=list[int])

    job = ask.enqueue()
    stoker.drain()
    app.reply("numbers", b"[1, 2]")
    stoker.drain()
    assert job.result == [1, 2]


def test_a_reply_that_cannot_travel_is_refused(app: Stoker) -> None:
    with pytest.raises(BadInput, match=r"the answer cannot travel as JSON: .*object"):
        app.reply("odd", object())
