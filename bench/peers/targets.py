"""How near a run has come to our goals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

from bench.engines.engine import Engine
from bench.peers.cast import OURS, Peer
from bench.peers.goals import Goals
from bench.peers.throughput import Turns, bulks, drains, singles, weight
from bench.peers.waiting import Wait
from bench.raw import PAYLOAD
from bench.result import Target
from bench.stopwatch import lower_ratio

Rates = Callable[[Turns, str], list[float]]


def drain_targets(
    goals: Goals, engine: Engine, peers: Sequence[Peer], turns: Turns
) -> Iterator[Target]:
    """Jobs out: beside the raw loop, and beside rivals."""
    raw = engine.raws[0].name
    for name in OURS:
        share = lower_ratio(drains(turns, name), drains(turns, raw))
        yield Target(f"drain, {name}, 1 process ÷ {raw}", goals.drain_of_raw, share)
        for rival in goals.rivals:
            best = _best(turns, drains, filter(rival.is_one, peers))
            if best is not None:
                share = lower_ratio(drains(turns, name), drains(turns, best))
                which = best if best == rival.name else f"{best}, {rival.name}"
                what = f"drain, {name}, 1 process ÷ {which}"
                yield Target(what, rival.times, share, "{:.2f}")


def enqueue_targets(
    goals: Goals, engine: Engine, peers: Sequence[Peer], turns: Turns
) -> Iterator[Target]:
    """Jobs in, and the room they take."""
    raw = engine.raws[0].name
    if goals.bulk_of_raw is not None:
        share = lower_ratio(bulks(turns, OURS[0]), bulks(turns, raw))
        yield Target(f"bulk enqueue, Stoker ÷ {raw}", goals.bulk_of_raw, share)
    for what, times, rates in (
        ("bulk enqueue", goals.bulk_of_peers, bulks),
        ("enqueue one by one", goals.single_of_peers, singles),
    ):
        best = _best(turns, rates, peers)
        if times is not None and best is not None:
            share = lower_ratio(rates(turns, OURS[0]), rates(turns, best))
            yield Target(f"{what}, Stoker ÷ {best}, the best peer", times, share, "{:.2f}")
    if goals.weight is not None:
        own = weight(turns, OURS[0]) - len(PAYLOAD)
        what = "a queued job, bytes beyond its payload"
        yield _limit(what, goals.weight, own, "{:,.0f}")


def _best(turns: Turns, rates: Rates, peers: Iterable[Peer]) -> str | None:
    names = [peer.name for peer in peers if peer.name in turns and rates(turns, peer.name)]
    return max(names, key=lambda name: median(rates(turns, name)), default=None)


def waiting_targets(goals: Goals, engine: Engine, waits: Sequence[Wait]) -> Iterator[Target]:
    """How soon jobs begin, and what idle workers use."""
    others = [wait for wait in waits if wait.names[0] not in OURS]
    soonest = min(others, key=lambda wait: wait.p50, default=None)
    for wait in waits:
        name = wait.names[0]
        if name not in OURS:
            continue
        if goals.latency_ms is not None:
            yield _limit(f"latency, {name}, p50", goals.latency_ms, wait.p50, "{:.2f} ms")
        if soonest is not None:
            what = f"latency, {name}, p50, beside {' that '.join(soonest.names)}"
            yield _limit(what, soonest.p50, wait.p50, "{:.2f} ms")
        yield from _idle_targets(goals, engine, wait)


def _idle_targets(goals: Goals, engine: Engine, wait: Wait) -> Iterator[Target]:
    if wait.idle is None:
        return
    name = wait.names[0]
    if goals.idle_processor is not None:
        what = f"idle worker, {name}, of a core"
        yield _limit(what, goals.idle_processor, wait.idle.processor, "{:.2%}")
    if goals.idle_asked is not None:
        what = f"idle worker, {name}, {engine.asks}"
        yield _limit(what, goals.idle_asked, wait.idle.asked, "{:.2f}")


def _limit(what: str, wanted: float, reached: float, form: str) -> Target:
    return Target(what, wanted, reached, form, below=True)
