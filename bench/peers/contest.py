"""The comparison as one benchmark: all measures in one run, and what we want to reach in them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.peers import backlog, throughput, waiting
from bench.peers.backlog import Backlogs
from bench.peers.cast import OURS, PEERS
from bench.peers.lineup import line_up
from bench.peers.throughput import RAW, Turns, bulks, drains
from bench.peers.waiting import Wait
from bench.plan import Setup
from bench.result import Result, Target
from bench.stopwatch import lower_ratio

OF_RAW_DRAIN = 0.4
OF_BEST_PEER = 3.0
OF_RAW_BULK = 0.5
LATENCY_MS = 3.0
IDLE = 0.005
OF_SHORT_QUEUE = 0.85


def run(setup: Setup) -> Result:
    """Stoker and its peers at everything that they have in common."""
    lineup, plan = line_up(setup), setup.plan.peers
    turns = throughput.measure(setup, lineup)
    waits = waiting.measure(setup, lineup)
    backlogs = backlog.measure(setup)
    tables = (
        lineup.table(),
        *throughput.tables(turns, plan),
        waiting.table(waits, plan),
        backlog.table(backlogs),
    )
    targets = (*_drain_targets(turns), *_waiting_targets(waits), _backlog_target(backlogs))
    return Result(tables, targets)


def _drain_targets(turns: Turns) -> list[Target]:
    targets = []
    best = _fastest_peer(turns)
    for name in OURS:
        share = lower_ratio(drains(turns, name), drains(turns, RAW))
        targets.append(Target(f"drain, {name}, 1 process ÷ raw", OF_RAW_DRAIN, share))
        if best is not None:
            share = lower_ratio(drains(turns, name), drains(turns, best))
            what = f"drain, {name}, 1 process ÷ {best}, the fastest at-least-once peer"
            targets.append(Target(what, OF_BEST_PEER, share, "{:.1f}"))
    share = lower_ratio(bulks(turns, OURS[0]), bulks(turns, RAW))
    return [*targets, Target("bulk enqueue, Stoker ÷ raw", OF_RAW_BULK, share)]


def _fastest_peer(turns: Turns) -> str | None:
    """Of those that run a job at least once."""
    peers = [peer.name for peer in PEERS if peer.at_least_once and peer.name in turns]
    return max(peers, key=lambda name: median(drains(turns, name)), default=None)


def _waiting_targets(waits: Sequence[Wait]) -> list[Target]:
    targets = []
    others = [wait for wait in waits if wait.names[0] not in OURS]
    soonest = min(others, key=lambda wait: wait.p50, default=None)
    for wait in waits:
        name = wait.names[0]
        if name not in OURS:
            continue
        targets.append(Target(f"latency, {name}, p50", LATENCY_MS, wait.p50, "{:.2f} ms", True))
        if soonest is not None:
            what = f"latency, {name}, p50, beside {' that '.join(soonest.names)}"
            targets.append(Target(what, soonest.p50, wait.p50, "{:.2f} ms", True))
        if wait.idle is not None:
            idle = wait.idle.processor
            targets.append(Target(f"idle worker, {name}, of a core", IDLE, idle, "{:.2%}", True))
    return targets


def _backlog_target(backlogs: Backlogs) -> Target:
    short, long = sorted(backlogs)
    share = lower_ratio(backlogs[long], backlogs[short])
    return Target(f"drain, {long:,} jobs queued ÷ {short:,}", OF_SHORT_QUEUE, share)
