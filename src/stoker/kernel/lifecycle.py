"""The whole life of a job in one table. Nothing else moves a job.

`docs/lifecycle.md` shows this table as a picture; the picture is generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import IllegalMove
from stoker.kernel.job import Job, State

Q, R, W, F, X, C = State

TRANSITIONS: Mapping[str, Mapping[State, frozenset[State]]] = {
    "start": {Q: frozenset({R})},
    "touch": {R: frozenset({R})},
    "finish": {R: frozenset({F, Q, W, C})},  # done, repeats, children pending (or unwanted)
    "fail": {R: frozenset({Q, X, C})},  # tried again, given up, was to be cancelled
    "refuse": {Q: frozenset({Q, X})},  # by a throttler: a repeating job has lost this run alone
    "expire": {R: frozenset({Q, X, C}), W: frozenset({Q, X})},  # lost, out of time, no reply
    "release": {R: frozenset({Q, C})},
    "wait": {R: frozenset({W, Q, C})},  # the reply is to come, was there before, is unwanted
    "wake": {W: frozenset({Q})},
    "tick": {W: frozenset({W, X})},  # the next run, or none that can be reckoned
    "advance": {W: frozenset({W, F, X})},  # a chain or group: the next step, or its end
    "cancel": {Q: frozenset({C}), W: frozenset({C}), R: frozenset({R})},
    "revive": {F: frozenset({Q, W}), X: frozenset({Q, W}), C: frozenset({Q, W})},
    "edit": {state: frozenset({state, *({Q, W} if state in (Q, W) else ())}) for state in State},
    "spawn": {R: frozenset({R}), W: frozenset({W})},
    "delete": {Q: frozenset(), W: frozenset(), F: frozenset(), X: frozenset(), C: frozenset()},
}
"""Event -> {state it may happen in: states it may lead to}. Deleting leads out of the table."""


# The same table as single steps, for a quick look.
_STEPS = frozenset(
    (event, state, target)
    for event, row in TRANSITIONS.items()
    for state, targets in row.items()
    for target in (None, *targets)
)


def check(event: str, job: Job, to: State | None = None) -> None:
    """Refuse a step that the table does not have."""
    if (event, job.state, to) in _STEPS:
        return
    if job.state in TRANSITIONS[event]:
        assert to is not None
        raise IllegalMove(f"{event} cannot make a {job.state.name} job {to.name} (job {job.id})")
    allowed = " or ".join(state.name for state in TRANSITIONS[event])
    raise IllegalMove(f"cannot {event} job {job.id}: it is {job.state.name}, not {allowed}")


def picture() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> QUEUED: enqueue"]
    lines.append("    [*] --> WAITING: enqueue (held for its parent)")
    for event, row in TRANSITIONS.items():
        if event == "edit":
            continue  # possible everywhere, and hardly moves anything
        for state, targets in row.items():
            ends = [target.name for target in sorted(targets)] or ["[*]"]
            lines += [f"    {state.name} --> {end}: {event}" for end in ends]
    return "\n".join([*lines, "```", ""])
