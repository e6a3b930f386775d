"""The lifecycle table: complete, and the only way a job moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.errors import IllegalMove
from stoker.kernel import control, family, flow, rules
from stoker.kernel.job import ENDED, LIVE, Job, State
from stoker.kernel.lifecycle import TRANSITIONS, check, picture
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.retry import Again, Ask, GiveUp
from tests.kernel.samples import BROKEN, NOW, job_in

TICKING = Policy(repeat="every 1m; overlap=allow")


def _with_verdict(verdict: Again | Ask | GiveUp) -> Callable[[Job], object]:
    return lambda job: rules.fail(job, now=NOW, failure=BROKEN, verdict=verdict)


# Every rule, as often as it can take a different way.
RULES: list[tuple[str, Callable[[Job], object]]] = [
    ("start", lambda job: rules.start(job, now=NOW, token=1)),
    ("touch", lambda job: rules.touch(job, now=NOW, progress=0.5)),
    ("touch", lambda job: rules.touch(job, now=NOW, visibility=1)),
    ("finish", lambda job: rules.finish(job, now=NOW)),
    ("finish", lambda job: rules.finish(job, now=NOW, repeat=False)),
    ("fail", _with_verdict(GiveUp())),
    ("fail", _with_verdict(Again(NOW))),
    ("fail", _with_verdict(Ask("handler"))),
    ("refuse", lambda job: rules.refuse(job, now=NOW, reason="not here")),
    ("expire", lambda job: rules.expire(job, now=NOW, dice=0.0)),
    ("expire", lambda job: rules.lose(job, now=NOW, dice=0.0, evidence="code 139")),
    ("release", lambda job: rules.release(job, now=NOW)),
    ("wait", lambda job: rules.wait(job, now=NOW, key="k")),
    ("wake", rules.wake),
    ("advance", lambda job: flow.advance(job, None, now=NOW)),
    ("tick", lambda job: family.tick(job, now=NOW)),
    ("cancel", lambda job: control.cancel(job, now=NOW)),
    ("revive", lambda job: control.revive(job, now=NOW)),
    ("edit", lambda job: control.edit(job, {"payload": b""})),
    ("spawn", lambda job: family.spawn(job, (Job("child"),))),
    ("delete", control.delete),
]

# Facts that send a rule down another branch; none of them may open a door that is shut.
BRANCHES: list[dict[str, object]] = [
    {},
    {"cancel_requested": True},
    {"open_children": 2},
    {"open_children": 2, "cancel_requested": True},
    {"policy": Policy(repeat="FINISHED, +1 HOUR")},
    {"policy": TICKING},
    {"policy": Policy(on_lost=OnLost.FAIL)},
    {"policy": Policy(on_lost=OnLost.RETRY, crash_limit=1)},
    {"parent_id": 9},
    {"undecided": True},
]

NOT_IN_TABLE = [
    pytest.param(event, rule, state, id=f"{event}-{state.name}-{number}")
    for number, (event, rule) in enumerate(RULES)
    for state in State
    if state not in TRANSITIONS[event]
]


@pytest.mark.parametrize(("event", "rule", "state"), NOT_IN_TABLE)
@pytest.mark.parametrize("facts", BRANCHES, ids=range(len(BRANCHES)))
def test_every_rule_refuses_every_step_that_the_table_does_not_have(
    event: str, rule: Callable[[Job], object], state: State, facts: dict[str, object]
) -> None:
    job = job_in(state, **facts)
    with pytest.raises(IllegalMove, match=rf"{event} job 5.* it is {state.name}"):
        rule(job)


def test_every_event_of_the_table_has_a_rule_that_was_tried() -> None:
    assert {event for event, _ in RULES} == TRANSITIONS.keys()


@pytest.mark.parametrize("event", TRANSITIONS)
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("to", State)
def test_a_check_allows_what_the_table_has_and_nothing_else(
    event: str, state: State, to: State
) -> None:
    job = job_in(state)
    if to in TRANSITIONS[event].get(state, ()):
        check(event, job, to)
        return
    with pytest.raises(IllegalMove, match=event) as caught:
        check(event, job, to)
    assert "job 5" in str(caught.value)
    assert state.name in str(caught.value)


def test_a_check_without_a_target_asks_only_whether_the_event_may_happen() -> None:
    check("delete", job_in(State.FAILED))
    with pytest.raises(IllegalMove, match="cannot delete job 5: it is RUNNING, not QUEUED or"):
        check("delete", job_in(State.RUNNING))


@pytest.mark.parametrize("state", sorted(ENDED))
def test_what_has_ended_changes_only_when_somebody_from_outside_wants_it(state: State) -> None:
    events = {event for event, row in TRANSITIONS.items() if state in row}
    assert events == {"revive", "edit", "delete"}
    assert TRANSITIONS["edit"][state] == {state}


def test_only_a_start_makes_a_job_run() -> None:
    into_running = {
        event
        for event, row in TRANSITIONS.items()
        for state, targets in row.items()
        if State.RUNNING in targets and state is not State.RUNNING
    }
    assert into_running == {"start"}


@pytest.mark.parametrize("state", sorted(LIVE))
def test_every_living_state_can_be_left_for_an_end(state: State) -> None:
    reached, frontier = {state}, [state]
    while frontier:
        here = frontier.pop()
        for row in TRANSITIONS.values():
            news = row.get(here, frozenset()) - reached
            reached |= news
            frontier += news
    assert reached == set(State)


def test_the_picture_shows_every_step_that_moves_a_job() -> None:
    drawn = picture().splitlines()
    for event, row in TRANSITIONS.items():
        for state, targets in row.items():
            for target in targets:
                line = f"    {state.name} --> {target.name}: {event}"
                assert (line in drawn) == (event != "edit"), line
    assert "    [*] --> QUEUED: enqueue" in drawn
    assert "    FAILED --> [*]: delete" in drawn
    assert drawn[0] == "```mermaid"
    assert drawn[-1] == "```"
