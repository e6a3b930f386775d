"""The turnstile where limits of all kinds meet: none is exceeded, and who has room is let in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from stoker.kernel.admission import Admission, Turnstile, fits, of_key, of_task
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import Flow, Rate, parse_rate

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND


class Asks(NamedTuple):
    """A job before a turnstile, how long after the last one, and whether all others have ended."""

    queue: str
    key: str | None
    task: str
    weight: int
    gap: int
    ended: bool


class Meter(NamedTuple):
    """One limit that a job falls under, said anew."""

    queue: str
    name: str
    units: int | None
    rate: Rate | None
    full: Admission


@dataclass
class Books:
    """What runs, what has started when, and what is to be remembered of rates."""

    held: Counter[tuple[str, str]] = field(default_factory=Counter)
    count: Counter[tuple[str, str]] = field(default_factory=Counter)
    flows: dict[tuple[str, str], str] = field(default_factory=dict)

    def used(self, queue: str, meter: str) -> int:
        return self.held[queue, meter]

    def flow(self, queue: str, meter: str) -> str:
        return self.flows.get((queue, meter), "")

    def has_room(self, meter: Meter, weight: int, now: int) -> bool:
        spot = meter.queue, meter.name
        if not fits(self.held[spot], weight, meter.units):
            return False
        return meter.rate is None or Flow(meter.rate, self.flow(*spot), now).free_at(weight) is None

    def enter(self, meters: list[Meter], weight: int, now: int) -> None:
        for meter in meters:
            spot = meter.queue, meter.name
            self.held[spot] += weight
            self.count[spot] += 1
            assert meter.units is None or self.held[spot] <= meter.units or self.count[spot] == 1
            if meter.rate is not None:
                flow = Flow(meter.rate, self.flow(*spot), now)
                assert flow.free_at(weight) is None
                flow.take(weight)
                self.flows[spot] = flow.state

    def all_end(self) -> None:
        self.held.clear()
        self.count.clear()


def meters_of(asks: Asks, policies: dict[str, QueueSettings]) -> Iterator[Meter]:
    """In the order in which they are asked."""
    settings = policies[asks.queue]
    if asks.key is not None and settings.limits_keys:
        rate = settings.key_rates.get(asks.key, settings.key_rate)
        units = settings.key_units(asks.key)
        yield Meter(asks.queue, of_key(asks.key), units, rate, Admission.KEY_FULL)
    if settings.limits_task(asks.task):
        rate = settings.task_rates.get(asks.task)
        units = settings.task_units(asks.task)
        yield Meter(asks.queue, of_task(asks.task), units, rate, Admission.TASK_FULL)
    yield Meter(asks.queue, "", settings.units(), settings.rate, Admission.QUEUE_FULL)
    if settings.within is not None:
        outer = policies[settings.within]
        yield Meter(settings.within, "", outer.units(), outer.rate, Admission.QUEUE_FULL)


LIMITS = (None, 0.5, 1, 2, 3.5)
KINDS = ("2 per 4s", "2 per 3s, fixed", "1 per s, burst 2", "0.5/s")
SOME_RATES = tuple(map(parse_rate, KINDS))
RATES = (None, *SOME_RATES)


def drawn(dice: random.Random) -> QueueSettings:
    """Settings with some limits of all kinds. Drawn beforehand: there is little to shrink."""
    pick = dice.choice
    return QueueSettings(
        capacity=pick((1, 2, 4)),
        key_capacity=pick(LIMITS),
        tasks={task: pick((0.5, 1, 2)) for task in "tu" if pick((True, False))},
        shares={key: pick((25, 50)) for key in "xy" if pick((True, False))},
        lend=pick((True, False)),
        rate=pick(RATES),
        key_rate=pick(RATES),
        key_rates={key: pick(SOME_RATES) for key in "xy" if pick((True, False, False))},
        task_rates={task: pick(SOME_RATES) for task in "tu" if pick((True, False, False))},
        within=pick((None, "outer")),
    )


INNER = [drawn(random.Random(seed)) for seed in range(200)]
OUTER = [QueueSettings(capacity=limit, rate=rate) for limit in LIMITS for rate in RATES]

policies = st.fixed_dictionaries(
    {"a": st.sampled_from(INNER), "b": st.sampled_from(INNER), "outer": st.sampled_from(OUTER)}
)
asking = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from((None, *"xyz")),
    st.sampled_from(("t", "u", "")),
    st.sampled_from((0, 250, 500, 1000, 1000, 2000, 5000)),
    st.sampled_from((0, 0, 0, SECOND // 3, SECOND, 5 * SECOND)),
    st.sampled_from((*[False] * 9, True)),
).map(Asks._make)


def turnstile_of(
    asks: Asks, policies: dict[str, QueueSettings], books: Books, now: int
) -> Turnstile:
    settings = policies[asks.queue]
    outer = None
    if settings.within is not None:
        outer = Turnstile(settings.within, policies[settings.within], books, now)
    return Turnstile(asks.queue, settings, books, now, outer)


@given(policies=policies, crowd=st.lists(asking, max_size=40))
def test_who_comes_to_a_turnstile_by_himself_enters_if_and_only_if_all_his_limits_have_room(
    policies: dict[str, QueueSettings], crowd: list[Asks]
) -> None:
    books, now = Books(), BEGIN
    for asks in crowd:
        now += asks.gap
        if asks.ended:
            books.all_end()
        meters = [*meters_of(asks, policies)] if asks.weight else []
        full = [meter for meter in meters if not books.has_room(meter, asks.weight, now)]
        turnstile = turnstile_of(asks, policies, books, now)
        answer = turnstile.ask(asks.key, asks.task, asks.weight, lent=True)
        assert answer is (full[0].full if full else Admission.ENTER)
        if answer is Admission.ENTER:
            books.enter(meters, asks.weight, now)
            remembered = [*turnstile.flows(), *(turnstile.outer.flows() if turnstile.outer else ())]
            kept = {(queue, meter): state for queue, meter, state, _ in remembered}
            assert kept.items() <= books.flows.items()


@given(policies=policies, crowd=st.lists(asking, max_size=40), size=st.integers(2, 9))
def test_however_many_come_at_once_no_limit_is_exceeded_and_who_is_refused_has_one_that_is(
    policies: dict[str, QueueSettings], crowd: list[Asks], size: int
) -> None:
    books, now = Books(), BEGIN
    for first in range(0, len(crowd), size):
        batch = [each for each in crowd[first : first + size] if each.queue == crowd[first].queue]
        now += batch[0].gap
        if batch[0].ended:
            books.all_end()
        before = Books(books.held.copy(), books.count.copy(), books.flows.copy())
        turnstile, shut = turnstile_of(batch[0], policies, before, now), set[Admission]()
        for asks in batch:
            meters = [*meters_of(asks, policies)] if asks.weight else []
            answer = turnstile.ask(asks.key, asks.task, asks.weight, lent=True)
            if answer is Admission.ENTER:
                books.enter(meters, asks.weight, now)
            else:
                full = {each.full for each in meters if not books.has_room(each, asks.weight, now)}
                assert answer in full | shut
                shut.add(answer)


@given(policies=policies, asks=asking, held=st.integers(0, 3000))
def test_who_has_a_share_is_told_to_wait_for_others_when_it_is_used_up_and_only_then(
    policies: dict[str, QueueSettings], asks: Asks, held: int
) -> None:
    books = Books()
    if asks.key is not None:
        books.held[asks.queue, of_key(asks.key)] = held
    settings = policies[asks.queue]
    share = None if asks.key is None else settings.lent_units(asks.key)
    beyond = share is not None and asks.weight > 0 and not fits(held, asks.weight, share)
    answer = turnstile_of(asks, policies, books, BEGIN).ask(asks.key, asks.task, asks.weight)
    assert (answer is Admission.SHARE_FULL) == beyond
