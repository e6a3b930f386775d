"""A claim of many jobs and many claims of few start the same ones, in the same order.

Of several queues that is so where all go by the order that decides between them. Where one does
not, its foremost job may stand behind one of another queue that does not fit into a limit of both,
and then so do all others until the next claim.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store.memory import MemoryStore

NOW = 1_700_000_000_000_000
RATE = parse_rate("3 per s")
SETTINGS = (
    QueueSettings(),
    QueueSettings(capacity=3, tasks={"t": 1}, within="outer"),
    QueueSettings(key_capacity=2, keys={"x": 0.5}, within="outer", order=Order.TIME_RANK),
    QueueSettings(capacity=4, shares={"x": 50, "y": 25}),
    QueueSettings(capacity=4, shares={"x": 25, "y": 25}, lend=True, task_rates={"t": RATE}),
    QueueSettings(rate=RATE, ageing=1_000_000, key_rate=parse_rate("2 per s, burst 2")),
    QueueSettings(fair=True, turns={"x": 2}, key_capacity=3, within="outer"),
    QueueSettings(fair=True, capacity=5, shares={"x": 40}, lend=True, rate=parse_rate("6 per s")),
)
ALIKE = tuple(s for s in SETTINGS if not (s.fair or s.ageing or s.order is Order.TIME_RANK))
OUTER = (QueueSettings(), QueueSettings(capacity=4), QueueSettings(capacity=6, rate=RATE))

Policies = dict[str, QueueSettings]
Draft = tuple[str, str | None, str, int, int, int]

drafts = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from((None, *"xyz")),
    st.sampled_from(("t", "u")),
    st.sampled_from((0, 500, 1000, 1000, 1000, 3000)),
    st.sampled_from((-1, 0, 0, 1)),
    st.integers(0, 3),
)


crowds = st.lists(drafts, max_size=25)
sizes = st.lists(st.integers(1, 5), max_size=6)


def started(policies: Policies, crowd: list[Draft], parts: list[int]) -> list[int]:
    """Which jobs start if one asks for so many, then for so many more."""
    desk = Desk(MemoryStore(clock=lambda: NOW))
    for queue, settings in policies.items():
        desk.control.configure(queue, settings)
    for queue, key, task, weight, rank, age in crowd:
        due_at = NOW - age * 1_000_000
        desk.intake.enqueue(Job(queue, task, key=key, weight=weight, rank=rank, due_at=due_at))
    claimed = [queue for queue in policies if queue != "outer"]
    return [job.id for limit in parts for job in desk.dispatch.claim(claimed, limit)]


@given(
    policies=st.fixed_dictionaries(
        {"a": st.sampled_from(SETTINGS), "outer": st.sampled_from(OUTER)}
    ),
    crowd=crowds,
    parts=sizes,
)
def test_it_does_not_matter_in_how_many_parts_jobs_of_a_queue_are_asked_for(
    policies: Policies, crowd: list[Draft], parts: list[int]
) -> None:
    assert started(policies, crowd, [*parts, 100]) == started(policies, crowd, [100])


@given(
    policies=st.fixed_dictionaries(
        {"a": st.sampled_from(ALIKE), "b": st.sampled_from(ALIKE), "outer": st.sampled_from(OUTER)}
    ),
    crowd=crowds,
    parts=sizes,
)
def test_nor_in_how_many_parts_those_of_several_queues_with_the_same_order(
    policies: Policies, crowd: list[Draft], parts: list[int]
) -> None:
    assert started(policies, crowd, [*parts, 100]) == started(policies, crowd, [100])
