"""A day in the life of a file: a bit of everything, step by step, the same every time.

Each step begins with what it finds, so that a day goes on when one of its steps has failed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.outcome import Awaits, Finished
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order, QueueSettings, Retention
from stoker.kernel.retry import Again, Failure
from stoker.store import Store
from stoker.watch import run_chores
from tests.engines import SECOND, VirtualClock

Step = Callable[[Desk, VirtualClock], None]

BROKEN = Failure(("builtins.ValueError",), "broken")


def desk_at(store: Store) -> Desk:
    """A desk whose dice always fall on 0 and whose tokens count."""
    return Desk(store, dice=lambda: 0.0, token=itertools.count(1001).__next__)


def enqueue_plain_ones(desk: Desk, clock: VirtualClock) -> None:
    desk.intake.enqueue_many([Job("mail", payload=b"%d" % n) for n in range(12)])


def enqueue_special_ones(desk: Desk, clock: VirtualClock) -> None:
    desk.intake.enqueue(Job("mail", payload=b"long" * 2000, ref="letter"))
    desk.intake.enqueue(Job("mail", unique_key="only", policy=Policy(timeout=90 * SECOND)))
    desk.intake.enqueue_many(
        [Job("mail", key=f"tenant-{n % 2}", rank=n % 3, due_at=clock() + n) for n in range(8)]
    )


def configure(desk: Desk, clock: VirtualClock) -> None:
    kept = Retention(finished=3600 * SECOND)
    desk.control.configure("mail", QueueSettings(key_capacity=1, retention=kept))


def turn_the_order(desk: Desk, clock: VirtualClock) -> None:
    desk.control.adjust("mail", order=Order.TIME_RANK)


def finish_some_and_claim_more(desk: Desk, clock: VirtualClock) -> None:
    session = desk.dispatch.open_session("worker", ttl=60 * SECOND)
    jobs = desk.dispatch.claim(["mail"], 6, session=session)
    more = desk.dispatch.request(["mail"], 3, session=session)
    desk.report.many([(job, Finished(b"done")) for job in jobs], [more])


def fail_and_retry(desk: Desk, clock: VirtualClock) -> None:
    for job in desk.dispatch.claim(["mail"], 2, visibility=30 * SECOND):
        desk.report.fail(job, BROKEN, verdict=Again(clock() + 5 * SECOND))


def raise_a_family(desk: Desk, clock: VirtualClock) -> None:
    desk.intake.enqueue(Job("family"))
    for parent in desk.dispatch.claim(["family"]):
        desk.intake.spawn(parent, [Job("child"), Job("child", key="k")])
        desk.report.finish(desk.store.get([parent.id])[parent.id])
    for child in desk.dispatch.claim(["child"], 5):
        desk.report.finish(child)


def wait_for_an_answer(desk: Desk, clock: VirtualClock) -> None:
    for job in desk.dispatch.claim(["mail"]):
        desk.report.wait(job, Awaits("answer", timeout=60 * SECOND))
    desk.control.reply("answer", b"42")
    desk.control.reply("nobody asked", b"7")


def meddle(desk: Desk, clock: VirtualClock) -> None:
    placed = desk.intake.enqueue_many([Job("mail") for _ in range(4)])
    desk.control.cancel(placed[0].id)
    desk.control.delete(placed[1].id)
    desk.control.edit(placed[2].id, {"payload": b"edited" * 1000, "queue": "moved"})
    desk.control.edit(placed[3].id, {"rank": 5, "key": "tenant-0"})
    desk.control.revive(placed[0].id)


def lose_a_worker(desk: Desk, clock: VirtualClock) -> None:
    clock.pass_(120)
    desk.store.troubled()
    run_chores(desk.clerk, "watch")


def forget_the_old(desk: Desk, clock: VirtualClock) -> None:
    clock.pass_(2 * 3600)
    run_chores(desk.clerk, "watch")


STEPS: tuple[Step, ...] = (
    enqueue_plain_ones,
    configure,
    enqueue_special_ones,
    finish_some_and_claim_more,
    fail_and_retry,
    raise_a_family,
    wait_for_an_answer,
    meddle,
    turn_the_order,
    lose_a_worker,
    finish_some_and_claim_more,
    forget_the_old,
    enqueue_plain_ones,
)
