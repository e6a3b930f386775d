"""`stoker stdio` as a process among others: pipes, signals, environment, ends."""

from __future__ import annotations

import json
import queue
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from stoker.desk import Desk
from stoker.kernel.job import State
from stoker.kernel.queue import QueueSettings
from stoker.store import Filter
from stoker.store.open import open_store
from tests.stdio.bus import Fields, worker_id
from tests.stdio.pipes import Piped, added, message, says

ANN, BOB = worker_id("ann"), worker_id("bob")
QUICK = ("--tick-interval", "100")

Start = Callable[..., Piped]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    begun: list[Piped] = []

    def run(*options: str, **more: object) -> Piped:
        begun.append(Piped(tmp_path, *options, **more))  # type: ignore[arg-type]
        return begun[-1]

    yield run
    for each in begun:
        each.kill()


def counts(place: Path) -> dict[State, int]:
    store = open_store(f"sqlite:///{place}/jobs.db")
    (view,) = store.survey(["q"])
    store.close()
    return {state: count for state, count in view.counts.items() if count}


def test_a_job_goes_its_way_through_a_pipe(start: Start, tmp_path: Path) -> None:
    process = start()
    process.say(says(ANN, "worker_idle"), added("one", command="x"))
    given = process.hear()
    assert given["topic"] == f"default/job_queue/workers/{ANN}/job_assignment"
    assert given["payload"]["command"] == "x"
    process.say(says(ANN, "job_accepted", uuid="one", started_at=given["created_at"]))
    process.say(says(ANN, "job_finished", uuid="one", exitcode=0))
    assert process.end() == 0
    assert process.log == []
    assert counts(tmp_path) == {State.FINISHED: 1}


def test_what_was_read_is_seen_to_before_the_end(start: Start, tmp_path: Path) -> None:
    process = start()
    process.say(*(added(f"job {number}") for number in range(5000)))
    process.say(says(ANN, "worker_idle"))
    assert process.end() == 0
    assert process.hear()["payload"]["uuid"] == "job 0"
    assert counts(tmp_path) == {State.QUEUED: 4999, State.RUNNING: 1}


def damaged(file: Path) -> None:
    file.write_bytes(b"Dear Ann, " * 200)


def too_new(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 999")


def a_folder(file: Path) -> None:
    file.mkdir()


@pytest.mark.parametrize(
    ("path", "spoil", "told"),
    [
        ("nowhere/jobs.db", None, "its folder does not exist; make it first"),
        ("jobs.db", a_folder, "cannot open"),
        ("jobs.db", damaged, "is damaged or no SQLite file"),
        ("jobs.db", too_new, "has schema 999"),
    ],
)
def test_where_waiting_does_not_help_it_ends_at_once_with_4(
    start: Start, tmp_path: Path, path: str, spoil: Callable[[Path], None] | None, told: str
) -> None:
    if spoil is not None:
        spoil(tmp_path / path)
    process = start("--store", f"sqlite:///{path}")
    assert process.wait() == 4, "while its input is still open"
    (entry,) = process.log
    assert entry["log_level"] == "critical"
    assert told in entry["log_message"]


def test_a_last_line_that_is_not_ended_is_read_too(tmp_path: Path, start: Start) -> None:
    process = start()
    process._stdin.write(json.dumps(added("one")).encode())
    assert process.end() == 0
    assert counts(tmp_path) == {State.QUEUED: 1}


def test_bad_lines_get_an_error_each_and_the_others_are_served(
    start: Start, tmp_path: Path
) -> None:
    process = start()
    bad = (b"", b"{", b"\xff", b"[]", b'{"topic": "default/what"}', b'a "quoted\\" \x01 text')
    process.say(added("one"), *bad, added("two"))
    assert process.end() == 0
    assert [entry["log_level"] for entry in process.log] == ["error"] * len(bad)
    assert {*process.log[0]} == {"log_level", "created_at", "log_message"}
    assert counts(tmp_path) == {State.QUEUED: 2}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_peace(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    process = start()
    process.say(added("one"), message("job_queue/list_job_queue", {"queue_name": "q"}))
    assert process.hear()["payload"]["count"] == 1
    process.process.send_signal(number)
    assert process.wait() == 0
    assert process.log == []
    assert counts(tmp_path) == {State.QUEUED: 1}


def test_when_nobody_reads_any_more_it_ends_quietly_but_not_with_0(tmp_path: Path) -> None:
    lines = [says(ANN, "worker_idle"), added("one")]
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker", "stdio", "--store", "sqlite:///jobs.db"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin and process.stdout and process.stderr
    process.stdout.close()
    process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    process.stdin.flush()
    assert process.wait(60) == 1
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()


def test_the_environment_says_who_it_is_and_what_it_reads(start: Start) -> None:
    process = start(
        SERVICE_NAME="queue ☃",
        SERVICE_UUID="me",
        SERVICE_HOST="there",
        NAMESPACE_LISTENER="job_queue",
        NAMESPACE_PUBLISHER="out",
        LOG_LEVEL="debug",
    )
    question = message("job_queue/list_queue_jobs", {"queue_name": "q"})
    process.say(question, {**question, "topic": "job_queue/job_queue/list_queue_jobs"})
    answer = process.hear()
    assert process.end() == 0
    sender = ("service_name", "service_uuid", "service_host", "topic")
    assert [answer[name] for name in sender] == [
        "queue ☃",
        "me",
        "there",
        "out/job_queue/list_queue_jobs/response",
    ]
    assert [entry["log_level"] for entry in process.log] == ["error"]


def test_nothing_said_means_the_usual_names_and_a_uuid_of_its_own(start: Start) -> None:
    uuids = set()
    for process in (start(SERVICE_UUID=""), start()):
        process.say(message("job_queue/list_queue_jobs", {"queue_name": "q"}))
        answer = process.hear()
        assert answer["service_name"] == "job_queue"
        assert answer["topic"] == "default/job_queue/list_queue_jobs/response"
        uuids.add(answer["service_uuid"])
        assert process.end() == 0
    assert {len(uuid) for uuid in uuids} == {36}
    assert len(uuids) == 2


def test_a_url_that_names_no_store_is_refused_in_one_line(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "stoker", "stdio", "--store", "nonsense:"],
        cwd=tmp_path,
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("stoker: error: no store is called 'nonsense:'")


@pytest.mark.parametrize(
    ("level", "told"), [("ERROR", []), ("warning", ["warning"]), ("odd", ["warning", "warning"])]
)
def test_the_log_has_a_level(start: Start, level: str, told: list[str]) -> None:
    process = start(LOG_LEVEL=level)
    process.say(says(ANN, "job_finished", uuid="unheard of"))
    assert process.end() == 0
    assert [entry["log_level"] for entry in process.log] == told


def test_jobs_for_one_process_wake_the_other_that_knows_an_idle_worker(start: Start) -> None:
    left, right = start(), start()
    left.say(says(ANN, "worker_idle"), message("job_queue/list_worker_queue", {"queue_name": "q"}))
    assert left.hear()["payload"]["count"] == 1
    right.say(added("one"))
    assert left.hear()["payload"]["uuid"] == "one"
    right.say(says(ANN, "job_finished", uuid="one"), added("two"), says(BOB, "worker_idle"))
    assert right.hear()["payload"]["uuid"] == "two"
    assert left.end() == right.end() == 0


def test_room_in_a_queue_around_two_others_is_heard_of_at_once(
    start: Start, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/jobs.db")
    control = Desk(store).control
    control.configure("outer", QueueSettings(capacity=1))
    for name in "qp":
        control.configure(name, QueueSettings(within="outer"))
    store.close()
    process = start("--tick-interval", "600000")
    process.say(says(ANN, "worker_idle"), added("one"))
    assert process.hear()["payload"]["uuid"] == "one"
    process.say(says(BOB, "worker_idle", queue_name="p"), added("two", queue_name="p"))
    process.say(says(ANN, "job_finished", uuid="one"))
    assert process.hear()["payload"]["uuid"] == "two"
    assert process.end() == 0


def test_a_lease_that_ends_is_noticed_without_any_tick_from_outside(start: Start) -> None:
    process = start(*QUICK, "--worker-expiry", "60000")
    process.say(says(ANN, "worker_idle"), added("one"))
    first = process.hear()
    process.say(says(BOB, "worker_idle"))
    second = process.hear()
    assert first["payload"]["uuid"] == second["payload"]["uuid"] == "one"
    assert BOB in second["topic"]


class Hands:
    """Workers that do what they are given, and keep on telling so, to whoever lives."""

    def __init__(self, names: int, dice: Random) -> None:
        self._doing: dict[str, str | None] = {worker_id(f"w{n}"): None for n in range(names)}
        self._dice = dice
        self.done: set[str] = set()

    def take(self, given: Fields) -> list[Fields]:
        worker, uuid = given["topic"].split("/")[3], given["payload"]["uuid"]
        if self._doing[worker] is not None:
            return []
        self._doing[worker] = uuid
        return [says(worker, "job_accepted", uuid=uuid, started_at=given["created_at"])]

    def tick(self) -> list[Fields]:
        return [self._word(worker) for worker in self._doing]

    def _word(self, worker: str) -> Fields:
        uuid = self._doing[worker]
        if uuid is None:
            return says(worker, "worker_idle")
        if self._dice.random() < 0.5:
            return says(worker, "worker_progress", uuid=uuid, progress=0.5)
        self._doing[worker] = None
        self.done.add(uuid)
        return says(worker, "job_finished", uuid=uuid)


def test_however_often_processes_are_killed_no_job_is_lost(start: Start, tmp_path: Path) -> None:
    dice = Random(1)
    heard: queue.Queue[Fields] = queue.Queue()
    processes = [start(*QUICK, heard=heard) for _ in range(2)]
    processes[0].say(*(added(f"job {number}") for number in range(60)))
    processes[0].say(message("job_queue/list_job_queue", {"queue_name": "q"}))
    assert heard.get(timeout=60)["payload"]["count"] == 60
    hands, kills = Hands(6, dice), 0
    while counts(tmp_path) != {State.FINISHED: 60}:
        for word in hands.tick():
            dice.choice(processes).say(word)
        with suppress(queue.Empty):
            while True:
                for word in hands.take(heard.get(timeout=0.05)):
                    dice.choice(processes).say(word)
        if kills < 6 and dice.random() < 0.3:
            kills += 1
            place = dice.randrange(2)
            processes[place].kill()
            processes[place] = start(*QUICK, heard=heard)
    assert kills > 0
    assert hands.done == {f"job {number}" for number in range(60)}
    for process in processes:
        assert process.end() == 0
    store = open_store(f"sqlite:///{tmp_path}/jobs.db")
    finished = store.find(Filter(states=(State.FINISHED,), limit=1000))
    store.close()
    results = [json.loads(job.result or b"") for job in finished]
    assert sorted(result["uuid"] for result in results) == sorted(hands.done)
