"""What workers say of their jobs: accepted, so far, finished; and who may say it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.doors.stdio.wire import stamp
from stoker.kernel.job import State
from stoker.store import Filter
from tests.stdio.bus import Bus, Worker


def kept(bus: Bus, uuid: str) -> dict[str, Any]:
    """All that is known of a finished job."""
    (job,) = bus.desk.store.find(Filter(ref=f"stdio:{uuid}"))
    assert job.state is State.FINISHED and job.result is not None
    result: dict[str, Any] = json.loads(job.result)
    return result


@pytest.fixture
def ann(bus: Bus) -> Worker:
    """A worker that was given job one."""
    ann = bus.worker("ann")
    bus.say(ann.idle(), bus.add("one", command="sleep", args=["1"]))
    return ann


def test_a_job_is_followed_through_the_listings(bus: Bus, ann: Worker) -> None:
    bus.say(bus.add("two"))
    assert bus.states() == {"queued": ["two"], "dispatched": ["one"]}
    bus.say(ann.accepted("one"))
    assert bus.states() == {"queued": ["two"], "processing": ["one"]}
    bus.say(ann.finished("one"))
    assert bus.states() == {"dispatched": ["two"]}
    bus.say(ann.finished("two"))
    assert bus.states() == {}


def test_a_finished_job_is_kept_with_all_that_was_said_of_it(bus: Bus, ann: Worker) -> None:
    given_at = bus.clock.now
    bus.clock.pass_(1)
    bus.say(ann.accepted("one", command="sleep", pid=77))
    started_at = bus.clock.now
    bus.clock.pass_(1)
    bus.say(ann.progress("one", progress={"progress": 0.5, "frame": 12}))
    bus.clock.pass_(1)
    bus.say(ann.finished("one", exitcode=0, stdout="ok\n", stderr=""))
    assert kept(bus, "one") == {
        "uuid": "one",
        "queue_name": "q",
        "command": "sleep",
        "args": ["1"],
        "dispatched_at": stamp(given_at),
        "started_at": stamp(started_at),
        "pid": 77,
        "progress": {"progress": 0.5, "frame": 12},
        "finished_at": stamp(bus.clock.now),
        "exitcode": 0,
        "stdout": "ok\n",
        "stderr": "",
        "worker_uuid": ann.uuid,
    }


def test_what_a_worker_leaves_out_is_not_lost(bus: Bus, ann: Worker) -> None:
    bus.say(ann.says("job_finished", {"uuid": "one", "queue_name": "q"}))
    whole = kept(bus, "one")
    assert (whole["command"], whole["args"]) == ("sleep", ["1"])
    assert whole["finished_at"] == stamp(bus.clock.now)


def test_a_job_may_be_finished_without_having_been_accepted(bus: Bus, ann: Worker) -> None:
    bus.say(ann.finished("one"))
    assert bus.states() == {}
    assert bus.pass_(12) == []


def test_accepted_and_finished_in_one_breath_are_both_heard(bus: Bus, ann: Worker) -> None:
    bus.say(ann.accepted("one", pid=7), ann.finished("one", exitcode=3))
    whole = kept(bus, "one")
    assert (whole["pid"], whole["exitcode"]) == (7, 3)


def test_complete_job_finishes_it_without_times(bus: Bus, ann: Worker) -> None:
    bus.say(ann.accepted("one"), bus.add("two"))
    done = bus.message("job_queue/complete_job", {"uuid": "one", "queue_name": "q", "out": 1})
    del done["created_at"]
    assert ann.was_given(bus.say({**done, "service_uuid": ann.uuid})) == ["two"]
    assert kept(bus, "one")["out"] == 1


def test_accepting_twice_is_harmless(bus: Bus, ann: Worker) -> None:
    bus.say(ann.accepted("one"))
    before = bus.ask("list_progress_queue")
    bus.say(ann.accepted("one"))
    assert bus.ask("list_progress_queue") == before


@pytest.mark.parametrize("verb", ["accepted", "finished"])
def test_only_the_worker_that_has_a_job_may_speak_of_it(
    bus: Bus, ann: Worker, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    bob = bus.worker("bob")
    assert bus.say(getattr(bob, verb)("one")) == []
    assert bus.states() == {"dispatched": ["one"]}
    assert [item["uuid"] for item in bus.ask("list_worker_queue")] == [ann.uuid]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"worker {bob.uuid} has not got job one")


@pytest.mark.parametrize("verb", ["accepted", "finished"])
def test_a_word_about_a_job_that_there_is_not_changes_nothing(
    bus: Bus, ann: Worker, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert bus.say(getattr(ann, verb)("unheard of")) == []
    assert bus.states() == {"dispatched": ["one"]}
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_finishing_twice_counts_once(bus: Bus, ann: Worker) -> None:
    bus.say(bus.add("two"), bus.add("three"))
    assert ann.was_given(bus.say(ann.finished("one", exitcode=0))) == ["two"]
    assert bus.say(ann.finished("one", exitcode=1)) == []
    assert kept(bus, "one")["exitcode"] == 0
    assert bus.states() == {"queued": ["three"], "dispatched": ["two"]}


# -- progress ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [{"progress": 0.4}, {"progress": {"progress": 0.4, "fps": 25}}, {"status": {"progress": 0.4}}],
)
def test_progress_is_understood_wherever_it_is_told(
    bus: Bus, ann: Worker, told: dict[str, Any]
) -> None:
    bus.say(ann.accepted("one"))
    bus.clock.pass_(2)
    bus.say(ann.progress("one", **told))
    assert bus.ask("list_progress_queue") == [
        {
            "uuid": "one",
            "worker_uuid": ann.uuid,
            "progress": 0.4,
            "last_progress_at": stamp(bus.clock.now),
        }
    ]


def test_progress_begins_with_nothing_at_the_time_of_acceptance(bus: Bus, ann: Worker) -> None:
    bus.clock.pass_(1)
    bus.say(ann.accepted("one"))
    accepted_at = bus.clock.now
    bus.clock.pass_(1)
    (item,) = bus.ask("list_progress_queue")
    assert (item["progress"], item["last_progress_at"]) == (0.0, stamp(accepted_at))


def test_a_report_without_a_fraction_keeps_the_last_one(bus: Bus, ann: Worker) -> None:
    bus.say(ann.accepted("one"), ann.progress("one", progress=0.4))
    bus.say(ann.progress("one"))
    assert [item["progress"] for item in bus.ask("list_progress_queue")] == [0.4]


@pytest.mark.parametrize("odd", [1.01, -0.1, "0.5", True, [0.5], {"progress": "half"}])
def test_a_fraction_that_is_none_is_ignored_but_is_a_sign_of_life(
    bus: Bus, ann: Worker, odd: object, caplog: pytest.LogCaptureFixture
) -> None:
    bus.say(ann.accepted("one"), ann.progress("one", progress=0.4))
    bus.clock.pass_(8)
    bus.say(ann.progress("one", progress=odd))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    bus.clock.pass_(8)
    assert [item["progress"] for item in bus.ask("list_progress_queue")] == [0.4]


def test_progress_of_a_job_that_was_given_out_counts_as_accepting_it(bus: Bus, ann: Worker) -> None:
    bus.say(ann.progress("one", progress=0.1))
    assert bus.states() == {"processing": ["one"]}


def test_an_old_report_does_not_shorten_the_lease(bus: Bus, ann: Worker) -> None:
    old = ann.progress("one", progress=0.1)
    bus.clock.pass_(5)
    bus.say(ann.accepted("one"))
    bus.say(old)
    bus.clock.pass_(8)
    assert bus.states() == {"processing": ["one"]}


# -- workers -------------------------------------------------------------------------------


def test_the_sender_counts_and_not_the_topic(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    ann, bob = bus.worker("ann"), bus.worker("bob")
    bus.say(ann.idle(service_uuid=bob.uuid))
    assert bob.was_given(bus.say(bus.add("one"))) == ["one"]
    (record,) = caplog.records
    assert (record.levelname, ann.uuid in record.getMessage()) == ("WARNING", True)


def test_an_idle_worker_that_had_accepted_a_job_has_forgotten_it(bus: Bus, ann: Worker) -> None:
    bus.say(ann.accepted("one"), bus.add("two"))
    bus.clock.pass_(1)
    assert ann.was_given(bus.say(ann.idle())) == ["one"]
    assert bus.states() == {"queued": ["two"], "dispatched": ["one"]}


def test_an_idle_report_from_before_the_acceptance_takes_nothing_away(
    bus: Bus, ann: Worker
) -> None:
    old = ann.idle()
    bus.clock.pass_(1)
    bus.say(ann.accepted("one"))
    assert bus.say(old) == []
    assert bus.states() == {"processing": ["one"]}
