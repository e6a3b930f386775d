"""Peers keep to the limits and the rate of a queue, whoever of them asks."""

from __future__ import annotations

from stoker.desk import Desk
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store import Store
from tests.engines import VirtualClock
from tests.worqr.playing import at_work, played


def limit(store: Store, settings: QueueSettings) -> None:
    """Of the only queue there is."""
    desk = Desk(store)
    (view,) = store.survey()
    desk.control.configure(view.name, settings)


@played
async def test_all_peers_together_have_no_more_tasks_than_there_are_places(store: Store) -> None:
    async with at_work(store, "ann", "bob") as (ann, bob):
        await ann.enqueue("q", ["one", "two"])
        limit(store, QueueSettings(capacity=1))
        process = await ann.start_task("q")
        assert process is not None
        assert await bob.start_task("q") is None
        await ann.finish_task(process.id)
        following = await bob.start_task("q")
        assert following is not None
        assert (process.task, following.task) == ("one", "two")


@played
async def test_a_task_over_the_rate_is_not_there_until_it_opens(
    store: Store, clock: VirtualClock
) -> None:
    async with at_work(store, "ann") as (ann,):
        await ann.enqueue("q", ["one", "two"])
        limit(store, QueueSettings(rate=parse_rate("1 per 2s, burst 1")))
        process = await ann.start_task("q")
        assert process is not None
        await ann.finish_task(process.id)
        assert await ann.start_task("q") is None
        clock.pass_(2)
        following = await ann.start_task("q")
        assert following is not None
