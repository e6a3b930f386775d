"""No job is lost on its way to a client, whatever goes wrong between."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stoker.desk import Desk
from stoker.doors.bedrock.handout import Ask, Found, Issue
from stoker.errors import StoreUnavailable
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.store import Answer, Claim
from stoker.store.memory import MemoryStore
from tests.bedrock.teller import Teller
from tests.engines import VirtualClock

ASK = Ask(("bedrock:*",), None, 2, waits=True)


class Shaky(MemoryStore):
    """A store whose answers are lost when it is told to lose them, though it has done the deed."""

    losing = False
    down = False
    blind = False

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        if self.down:
            raise StoreUnavailable("no store")
        answer = super().transact(changes, claims)
        if self.losing:
            raise StoreUnavailable("no answer")
        return answer

    def next_due(self, queues: Sequence[str], after: int | None = None) -> int | None:
        if self.blind:
            raise StoreUnavailable("no answer")
        return super().next_due(queues, after)


@pytest.fixture
def store(clock: VirtualClock) -> Shaky:
    return Shaky(clock)


def test_what_was_claimed_without_an_answer_goes_back(store: Shaky, desk: Desk) -> None:
    teller, issue = Teller(desk), Issue(desk)
    ids = [teller.create("foo") for _ in range(3)]
    store.losing = True
    with pytest.raises(StoreUnavailable):
        issue.serve([ASK])
    assert issue.troubled
    store.losing = False
    assert [teller.state(job_id) for job_id in ids] == ["RUNNING", "RUNNING", "QUEUED"]
    issue.put_right()
    assert [teller.state(job_id) for job_id in ids] == ["QUEUED"] * 3
    assert not issue.troubled


def test_what_cannot_be_given_back_is_given_back_later(store: Shaky, desk: Desk) -> None:
    teller, issue = Teller(desk), Issue(desk)
    job_id = teller.create("foo")
    (found,) = issue.serve([ASK])
    assert isinstance(found, Found)
    store.down = True
    with pytest.raises(StoreUnavailable):
        issue.give_back([handout.job for handout in found.handouts])
    with pytest.raises(StoreUnavailable):
        issue.put_right()
    store.down = False
    assert teller.state(job_id) == "RUNNING"
    issue.put_right()
    assert (teller.state(job_id), issue.troubled) == ("QUEUED", False)


def test_what_could_not_be_told_about_goes_back(store: Shaky, desk: Desk) -> None:
    teller, issue = Teller(desk), Issue(desk)
    job_id = teller.create("foo")
    store.blind = True
    (found,) = issue.serve([ASK])
    assert isinstance(found, StoreUnavailable)
    issue.put_right()
    assert teller.state(job_id) == "QUEUED"


def test_what_others_hold_stays_with_them(store: Shaky, desk: Desk) -> None:
    teller, issue = Teller(desk), Issue(desk)
    held = teller.begun("foo")
    desk.intake.enqueue(Job("mail"))
    (mail,) = desk.dispatch.claim(["mail"])
    store.losing = True
    with pytest.raises(StoreUnavailable):
        issue.serve([ASK])
    store.losing = False
    issue.put_right()
    assert teller.state(held) == "RUNNING"
    assert desk.report.finish(mail).ended
