"""A job of which nothing is kept: whoever ends it still learns how it ended."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.kernel.job import State
from stoker.kernel.queue import QueueSettings, Retention
from tests.store.conformance.acts import BROKEN, exists, put, running

NOTHING_KEPT = QueueSettings(retention=Retention(finished=0, failed=0, cancelled=0))


@pytest.fixture(autouse=True)
def keep_nothing(desk: Desk) -> None:
    desk.control.configure("q", NOTHING_KEPT)


def test_a_finished_job_is_answered_as_it_ended(desk: Desk) -> None:
    job = running(desk)
    done = desk.report.finish(job, result=b"14")
    assert (done.state, done.result, done.ended_at) == (
        State.FINISHED,
        b"14",
        desk.store.now(),
    )
    assert (done.token, done.session, done.until) == (None, None, desk.store.now())
    assert not exists(desk, job.id)


def test_a_failed_job_is_answered_as_it_ended(desk: Desk) -> None:
    failed = desk.report.fail(running(desk), BROKEN)
    assert (failed.state, failed.error) == (State.FAILED, BROKEN.message)
    assert not exists(desk, failed.id)


def test_a_cancelled_job_is_answered_as_it_ended(desk: Desk) -> None:
    assert desk.control.cancel(put(desk)).state is State.CANCELLED
    (result,) = desk.control.cancel_many([put(desk)])
    assert not isinstance(result, Exception)
    assert result.state is State.CANCELLED
