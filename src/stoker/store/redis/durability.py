"""What a server does with what it was told: facts that decide what a crash takes along.

Some are asked for with CONFIG, which managed servers forbid; those are then unknown.
"""

from __future__ import annotations

from typing import Any

import msgspec
from redis import exceptions as trouble

from stoker.errors import StoreUnfit
from stoker.store.finding import Finding, Level
from stoker.store.redis.options import Ack, Options
from stoker.store.redis.topology import Address
from stoker.store.redis.wire import Wire

_OLDEST = (7, 0)
_FIRST_WITH_WAITAOF = (7, 2)
_FIRST_REDIS_WITH_HONEST_WAITAOF = (8,)


class ServerFacts(msgspec.Struct, frozen=True):
    """One server, as far as it tells."""

    address: Address
    product: str
    version: tuple[int, ...]
    """As a Redis: Valkey tells which one it stands for."""
    appends: bool | None
    """Is there an append-only file?"""
    fsync: str | None
    """always, everysec or no; None: it does not say."""
    snapshots: bool | None
    eviction: str
    memory: int
    memory_limit: int
    replicas: int
    guarded: bool
    """Does it refuse writes when its replicas have left it (min-replicas-to-write)?"""
    sound: bool
    """Did its last writes to the disk succeed?"""


def facts_of(wire: Wire, address: Address) -> ServerFacts:
    """Ask a server about itself."""
    said = _said(wire.ask(address, "INFO"))
    try:
        told = wire.ask(address, "CONFIG", "GET", "appendfsync", "save")
        settings = {told[i].decode(): told[i + 1].decode() for i in range(0, len(told), 2)}
    except trouble.ResponseError:
        settings = {}
    product = "Valkey" if "valkey_version" in said else "Redis"
    version = said.get("valkey_version") or said.get("redis_version", "0")
    saves = settings.get("save")
    return ServerFacts(
        address,
        f"{product} {version}",
        tuple(int(part) for part in said.get("redis_version", "0").split(".") if part.isdigit()),
        appends={"1": True, "0": False}.get(said.get("aof_enabled", "")),
        fsync=settings.get("appendfsync"),
        snapshots=None if saves is None else bool(saves),
        eviction=said.get("maxmemory_policy", ""),
        memory=int(said.get("used_memory", 0)),
        memory_limit=int(said.get("maxmemory", 0)),
        replicas=int(said.get("connected_slaves", 0)),
        guarded="min_slaves_good_slaves" in said,
        sound=_is_sound(said),
    )


def _said(info: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value for name, separator, value in lines if separator}


def _is_sound(said: dict[str, Any]) -> bool:
    asked = ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")
    return all(said.get(name, "ok") == "ok" for name in asked)


def refuse_if_unsafe(options: Options, facts: ServerFacts) -> None:
    """Refuse a server that would lose jobs in quiet times, or cannot do what was asked for."""
    where = f"{facts.product} at {facts.address}"
    if facts.version < _OLDEST:
        raise StoreUnfit(f"{where} is too old; Stoker needs Redis 7.0 or Valkey 7.2")
    if facts.eviction not in ("", "noeviction") and not options.unsafe:
        raise StoreUnfit(
            f"{where} throws keys away when memory runs short (maxmemory-policy "
            f"{facts.eviction}), and jobs with them; set maxmemory-policy noeviction, or say "
            "?unsafe=1 if losing jobs does not matter"
        )
    if options.ack in (Ack.FSYNC, Ack.FSYNC_REPLICA):
        _refuse_without_disk(options, facts, where)


def _refuse_without_disk(options: Options, facts: ServerFacts, where: str) -> None:
    asked = f"ack={options.ack.value} was asked for"
    if facts.appends is False:
        raise StoreUnfit(f"{asked}, but {where} writes no log; set appendonly yes")
    if facts.version < _FIRST_WITH_WAITAOF and needs_waitaof(options.ack, facts):
        raise StoreUnfit(
            f"{asked}, but {where} cannot tell when its log is on the disk; use Redis 8.0 or "
            "newer, or set appendfsync always"
        )
    if facts.fsync not in (None, "always") and _confirms_early(facts) and not options.unsafe:
        raise StoreUnfit(
            f"{asked}, but {where} confirms up to a second before its log is on the disk "
            f"(WAITAOF with appendfsync {facts.fsync}); set appendfsync always, use Redis 8.0 or "
            "newer, or say ?unsafe=1 if a power cut may take that second along"
        )


def _confirms_early(facts: ServerFacts) -> bool:
    """Does WAITAOF answer at once, if the last sync is less than a second ago? So it does on every
    Valkey up to now, and on Redis before it was mended there."""
    is_valkey = facts.product.startswith("Valkey")
    return is_valkey or facts.version < _FIRST_REDIS_WITH_HONEST_WAITAOF


def needs_waitaof(ack: Ack, facts: ServerFacts) -> bool:
    """Whether the disk has to be waited for: with `always` an answer says it is there already."""
    return ack is Ack.FSYNC_REPLICA or (ack is Ack.FSYNC and facts.fsync != "always")


def without_disk(ack: Ack) -> Ack:
    """What is left to be waited for if the server sees to its disk."""
    return Ack.MEMORY if ack is Ack.FSYNC else ack


# -- what would be lost --------------------------------------------------------------------


def findings(options: Options, facts: ServerFacts) -> list[Finding]:
    """What there is to say about one server."""
    found = [Finding("server", f"{facts.product} at {facts.address}")]
    found.append(_on_crash(options, facts))
    found.append(_on_loss_of_server(options, facts))
    found.append(_eviction(facts))
    found.append(_memory(facts))
    if not facts.sound:
        text = "the server could not write to its disk lately; see its log"
        found.append(Finding("disk", text, Level.PROBLEM))
    return found


def _on_crash(options: Options, facts: ServerFacts) -> Finding:
    if facts.appends is None:
        text = "the server does not say whether it writes a log; ask whoever runs it"
        return Finding("crash", text, Level.WARNING)
    if not facts.appends:
        kept = "what came after the last snapshot" if facts.snapshots else "everything"
        text = f"appendonly is off: a crash or restart of the server loses {kept}; "
        return Finding("crash", text + "set appendonly yes", Level.WARNING)
    waits = options.ack in (Ack.FSYNC, Ack.FSYNC_REPLICA) and not _confirms_early(facts)
    if facts.fsync == "always" or waits:
        text = "nothing acknowledged is lost when the server crashes or its machine loses power"
        return Finding("crash", text)
    if facts.fsync == "everysec":
        text = (
            "when the server crashes or its machine loses power, up to two seconds may be lost "
            "(appendfsync everysec; set always if that is too much)"
        )
        return Finding("crash", text)
    if facts.fsync is None:
        text = "what a crash takes along goes by appendfsync, which is not told"
        return Finding("crash", text, Level.WARNING)
    text = (
        "nothing acknowledged is lost when the server crashes; how much is when its machine loses "
        f"power is up to the system (appendfsync {facts.fsync})"
    )
    return Finding("crash", text, Level.WARNING)


def _on_loss_of_server(options: Options, facts: ServerFacts) -> Finding:
    if not facts.replicas:
        wanted = Level.WARNING if options.ack in (Ack.REPLICA, Ack.FSYNC_REPLICA) else Level.FINE
        return Finding("failover", "there is no replica: its disk is the only copy", wanted)
    if options.ack in (Ack.REPLICA, Ack.FSYNC_REPLICA):
        text = (
            f"{facts.replicas} replica(s), one of which confirms every write; a failover to "
            "another one may still lose some"
        )
        return Finding("failover", text)
    text = (
        f"{facts.replicas} replica(s), which follow a moment later: a failover may lose the last "
        "writes (say ?ack=replica to wait for one of them)"
    )
    if options.kind and not facts.guarded:
        text += (
            "; a primary that is cut off does not know that it has a successor, and loses all that "
            "it goes on to take in (set min-replicas-to-write 1)"
        )
    return Finding("failover", text)


def _eviction(facts: ServerFacts) -> Finding:
    if facts.eviction == "noeviction":
        return Finding("eviction", "the server throws no keys away")
    if not facts.eviction:
        text = "the server does not tell its maxmemory-policy; it must be noeviction"
        return Finding("eviction", text, Level.WARNING)
    text = f"maxmemory-policy {facts.eviction} throws jobs away when memory runs short"
    return Finding("eviction", text, Level.PROBLEM)


def _memory(facts: ServerFacts) -> Finding:
    used = f"{facts.memory / 2**20:,.0f} MiB in use"
    if not facts.memory_limit:
        return Finding("memory", f"{used}, without a limit (maxmemory)")
    share = facts.memory / facts.memory_limit
    level = Level.WARNING if share > 0.8 else Level.FINE
    return Finding("memory", f"{used}, {share:.0%} of maxmemory", level)
