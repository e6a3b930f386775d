"""Commands that look at the whole: stats, workers, top, check; and migrate, bench, reply."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.desk.workers import MOST_COUNTED, survey_workers
from stoker.doors.cli.top import Snapshot, rates
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Awaits
from stoker.kernel.queue import DEFAULTS
from stoker.store import Filter, QueueView, Store
from stoker.store.finding import Level
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync
from tests.cli.conftest import Cli, document, lines
from tests.engines import VirtualClock

INFO = '{"host": "vm", "pid": 7, "queues": ["mail", "report-*"], "concurrency": 2}'
LONG = 3600 * 1_000_000


def open_worker(desk: Desk, name: str = "ann", info: str = INFO, ttl: int = LONG) -> int:
    return desk.dispatch.open_session(name, info, ttl=ttl)


# --- stats and workers ---------------------------------------------------------------------------


def test_stats_are_all_jobs_in_numbers(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue_many([*[Job("mail")] * 1500, Job("files", due_at=4_000_000_000_000_000)])
    jobs.control.adjust("files", paused=True)
    open_worker(jobs)
    told = dict(line.split(maxsplit=1) for line in cli("stats").stdout.splitlines() if line)
    assert told["queues"] == "2, paused: files"
    assert told["workers"] == "1 alive"
    assert told["QUEUED"] == "1,501"
    assert told["FAILED"] == "0"
    form = document(cli("stats", "--json"))
    assert form["jobs"]["QUEUED"] == 1501
    assert form["workers"] == {"alive": 1, "dead": 0}
    assert form["next_due"] == "2096-10-02T07:06:40.000000Z"


def test_workers_are_listed_with_what_they_hold(cli: Cli, jobs: Desk) -> None:
    session = open_worker(jobs)
    jobs.intake.enqueue_many([Job("mail")] * 3)
    jobs.dispatch.claim(["mail"], 2, session=session)
    head, line = cli("workers").stdout.splitlines()
    assert head.split() == ["worker", "host", "pid", "queues", "jobs", "up", "since", "state"]
    assert line.split()[:7] == ["ann", "vm", "7", "mail,report-*", "2", "of", "2"]
    assert line.endswith("alive")
    (form,) = lines(cli("workers", "--json"))
    assert form["session"] == str(session)
    assert (form["alive"], form["held"], form["queues"]) == (True, 2, ["mail", "report-*"])


def test_nobody_at_work_is_said(cli: Cli, jobs: Desk) -> None:
    assert "no worker is on the books" in cli("workers").stderr


def test_a_dead_worker_is_known_by_its_missing_beats(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    open_worker(desk, ttl=1_000_000)
    assert [worker.alive for worker in survey_workers(store)] == [True]
    clock.pass_(1)
    assert [worker.alive for worker in survey_workers(store)] == [False]


def test_a_worker_may_say_nothing_of_itself_or_speak_free_text(desk: Desk, store: Store) -> None:
    open_worker(desk, info="{}")
    open_worker(desk, info="me, on the laptop")
    for worker in survey_workers(store):
        assert worker.info.queues is None
        assert worker.serves("anything")
        assert not worker.busy


def test_a_worker_serves_the_queues_it_names_and_is_busy_with_as_many_jobs_as_it_runs(
    desk: Desk, store: Store
) -> None:
    session = open_worker(desk)
    desk.intake.enqueue_many([Job("mail")] * 2)
    (worker,) = survey_workers(store)
    assert [worker.serves(queue) for queue in ("mail", "report-7", "report")] == [True, True, False]
    assert not worker.busy
    desk.dispatch.claim(["mail"], 2, session=session)
    (worker,) = survey_workers(store)
    assert worker.busy
    assert worker.held == 2 < MOST_COUNTED


# --- top -----------------------------------------------------------------------------------------


def test_top_shows_what_is_there_where_there_is_no_terminal(cli: Cli, jobs: Desk) -> None:
    session = open_worker(jobs)
    jobs.intake.enqueue_many([Job("mail", "welcome", key="ann"), Job("mail", "welcome")])
    (job,) = jobs.dispatch.claim(["mail"], session=session)
    jobs.report.touch(job, progress=0.5)
    told = cli("top").stdout
    assert told.startswith("stoker  sqlite:///jobs.db?sync=normal  ")
    assert "\nmail        1        1 " in told
    assert "\nann     vm      7  mail,report-*  1 of 2 " in told
    running = told.splitlines()[-1].split()
    assert running[:5] == ["1", "mail", "welcome", "ann", "1"]
    assert running[-2:] == ["50%", "ann"]


def test_top_has_the_same_for_programs(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue_many([Job("mail"), Job("mail")])
    jobs.dispatch.claim(["mail"])
    told = document(cli("top", "--json"))
    assert [job["id"] for job in told["running"]] == [1]
    assert told["queues"][0]["counts"]["QUEUED"] == 1
    assert told["workers"] == []


def test_an_empty_store_has_a_top_too(cli: Cli, jobs: Desk) -> None:
    assert "no queues yet" in cli("top").stdout


def test_rates_are_ended_jobs_a_second_and_never_negative() -> None:
    def seen(at: int, **ended: int) -> Snapshot:
        counts = dict.fromkeys(State, 0)
        views = [
            QueueView(name, DEFAULTS, {**counts, State.FINISHED: n - 1, State.FAILED: 1}, 0)
            for name, n in ended.items()
        ]
        return Snapshot(at, views, [], [])

    before, after = seen(1_000_000, mail=10, files=10), seen(3_000_000, mail=30, files=4, new=5)
    assert rates(before, after) == {"mail": 10.0, "files": 0.0, "new": 2.5}


# --- check and migrate ---------------------------------------------------------------------------


def test_a_sound_store_passes_and_tells_what_it_promises(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue(Job("mail"))
    result = cli("check", "--store", "sqlite:///jobs.db")
    assert result.exit_code == 0
    told = {line.split()[1]: line for line in result.stdout.splitlines()}
    assert [*told] == [
        *("file", "library", "schema", "integrity", "books"),
        *("durability", "permissions", "disk"),
    ]
    assert all(line.startswith("✓ ") for line in told.values())
    assert "nothing acknowledged is lost when a process is killed, nor when" in told["durability"]
    assert told["permissions"].endswith("the file is closed to others (600)")


def test_a_store_that_may_lose_the_last_moments_says_so(cli: Cli, jobs: Desk) -> None:
    told = cli("check").stdout
    assert "when the machine loses power the last commits may be lost" in told


def test_a_file_that_everybody_may_read_is_a_warning(cli: Cli, jobs: Desk) -> None:
    Path("jobs.db").chmod(0o644)
    result = cli("check", "--json")
    assert result.exit_code == 0
    (finding,) = [f for f in document(result)["findings"] if f["level"] != "fine"]
    assert finding["subject"] == "permissions"
    assert "everybody on this machine may see the jobs (644)" in finding["text"]


def test_counts_that_do_not_agree_with_the_jobs_are_a_problem(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue_many([Job("mail"), Job("files")])
    store = jobs.store
    assert isinstance(store, SqliteStore)
    wrong = "UPDATE queue SET failed = 2 WHERE name = 'files'"
    store._write(lambda connection: connection.execute(wrong))
    result = cli("check")
    assert result.exit_code == 4
    assert "✗ books" in result.stdout
    assert "the counts of the queue files do not agree with its jobs" in result.stdout
    assert "mail do not agree" not in result.stdout
    assert result.stderr.endswith("has 1 problem; see above\n")


def test_a_damaged_page_is_a_problem(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", sync=Sync.NORMAL)
    Desk(store).intake.enqueue_many([Job("mail", payload=b'"%s"' % (b"x" * 1000))] * 200)
    store.close()
    with (tmp_path / "jobs.db").open("r+b") as file:
        file.seek(4096 * 60)
        file.write(b"\xff" * 4096)
    store = SqliteStore(tmp_path / "jobs.db", sync=Sync.NORMAL)
    try:
        found = {f.subject: f for f in store.check() if f.level is Level.PROBLEM}
    finally:
        store.close()
    assert "integrity" in found
    assert found["integrity"].text.endswith("restore a backup")


def test_migrating_makes_a_store_and_then_finds_it_up_to_date(cli: Cli, place: Path) -> None:
    words = ["migrate", "--store", "sqlite:///jobs.db"]
    assert cli(*words).stdout == "sqlite:///jobs.db was made, with schema 1\n"
    assert cli(*words).stdout == "sqlite:///jobs.db has schema 1: up to date\n"
    assert document(cli(*words, "--json")) == {"store": "sqlite:///jobs.db", "from": 1, "to": 1}


# --- bench and reply -----------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["memory:", "sqlite:///jobs.db?sync=normal"])
def test_measuring_gives_four_numbers(cli: Cli, place: Path, url: str) -> None:
    told = document(cli("bench", "--store", url, "--seconds", "0.01", "--json"))
    assert [measure["name"] for measure in told["measures"]] == [
        "enqueue, 1 a commit",
        "enqueue, 500 a commit",
        "finish and claim, 100 a step",
        "enqueue, ring, claim",
    ]
    for measure in told["measures"]:
        assert measure["jobs"] >= 2
        assert measure["jobs_per_second"] > 0
        assert 0 < measure["p50_seconds"] <= measure["p99_seconds"]


def test_measuring_leaves_nothing_behind_and_touches_nothing_else(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue(Job("mail"))
    result = cli("bench", "--seconds", "0.01")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split()[:3] == ["measure", "jobs", "jobs/s"]
    assert [view.name for view in jobs.store.survey()] == ["mail"]
    assert [job.state for job in jobs.store.find(Filter())] == [State.QUEUED]


def test_an_answer_goes_to_the_job_that_waits_for_it(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue(Job("orders"))
    (job,) = jobs.dispatch.claim(["orders"])
    jobs.report.wait(job, Awaits("order-17"))
    result = cli("reply", "order-17", '{"ok": true}')
    assert result.stdout == "delivered: the job that waited for it goes on\n"
    assert jobs.store.get([1])[1].reply == b'{"ok": true}'


def test_an_answer_that_comes_early_is_kept_and_a_second_one_refused(cli: Cli, jobs: Desk) -> None:
    assert document(cli("reply", "k", "-", "--json", stdin="1")) == {"key": "k", "outcome": "kept"}
    again = cli("reply", "k", "2")
    assert again.exit_code == 1
    assert "an answer for 'k' was there already" in again.stderr


def test_an_answer_that_comes_too_late_is_said_to_be_so(cli: Cli, jobs: Desk) -> None:
    jobs.intake.enqueue(Job("orders"))
    (job,) = jobs.dispatch.claim(["orders"])
    jobs.control.cancel(jobs.report.wait(job, Awaits("k")).id)
    result = cli("reply", "k", "1")
    assert result.exit_code == 1
    assert "the question 'k' is over" in result.stderr


def test_an_answer_must_be_json(cli: Cli, jobs: Desk) -> None:
    result = cli("reply", "k", "yes")
    assert result.exit_code == 2
    assert "the answer cannot be used; this is no JSON" in result.stderr
