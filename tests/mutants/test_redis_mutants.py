"""Would we notice? Each mutant breaks the functions in the Redis server in one place; the walk must
kill it.

A mutant that survives means that the walk no longer looks where it should.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from stoker.store.redis import wire
from stoker.store.redis.library import Library, library
from tests.model.walk import walk
from tests.servers import valkey

SEEDS, STEPS = 40, 200


class Mutant(NamedTuple):
    sound: str
    broken: str


MUTANTS = {
    "a late worker's report is accepted": Mutant(
        "life and sub(life, 1, GUARD_END) == guard", "life and true"
    ),
    "only the revision is compared": Mutant("local GUARD_END = 12", "local GUARD_END = 4"),
    "a sign of life needs no lease": Mutant(
        "if not touch.life or sub(touch.life, 5, 12) ~= touch[2] then", "if not touch.life then"
    ),
    "a Change with one stale copy is believed": Mutant(
        "if #stale > 0 or #stale_notes > 0 then", "if #stale_notes > 0 then"
    ),
    "a note's guard is not looked at": Mutant(
        "if #stale > 0 or #stale_notes > 0 then", "if #stale > 0 then"
    ),
    "twins are not looked for": Mutant("if #twins > 0 then", "if false then"),
    "names that are given up are kept": Mutant(
        "call('HDEL', T .. ':n:'", "call('HGET', T .. ':n:'"
    ),
    "jobs that leave are still counted": Mutant("count(page, stand[STATE], -#numbers)", ""),
    "a released unit of capacity is forgotten": Mutant(
        "page.used = page.used + units", "page.used = page.used + math.max(units, 0)"
    ),
    "a key's use is forgotten": Mutant("if key and units ~= 0 then", "if key and units > 0 then"),
    "indexes are not cleared": Mutant("unmark(stand[MARKS], numbers)", ""),
    "a lease that was prolonged ends as before": Mutant(
        "  if touch[3] then\n", "  if false then\n"
    ),
    "a parent is not told": Mutant("open - 1, finished", "open, finished"),
    "telling a parent is no new revision": Mutant(
        "return pack('>I4', revision + 1) .. sub(life, 5, 42)",
        "return pack('>I4', revision) .. sub(life, 5, 42)",
    ),
    "nobody notes that a parent waits in vain": Mutant("if in_vain then", "if false then"),
    "jobs are born without their lives": Mutant("if group[LIFE] then", "if false then"),
    "an edited job loses its payload": Mutant(
        "(payload or sub(body, length + 1))", "(payload or '')"
    ),
    "progress is forgotten at the end": Mutant(
        ".. (progress or sub(life, 67, 74))\n        .. (own_rest",
        ".. (progress or NO_PROGRESS)\n        .. (own_rest",
    ),
    "jobs start before they are due": Mutant("sub(member, 9, 16) <= NOW8 then", "true then"),
    "a full key lets more in": Mutant("not fits(gate.key_used[key], weight, limit)", "false"),
    "a full queue lets more in": Mutant("not fits(gate.used, weight, page.capacity)", "false"),
    "those behind the head of a lane are not seen": Mutant(
        "elseif source == HEADS then", "elseif false then"
    ),
    "weights are ignored": Mutant("head_of(body)[8] or WHOLE_WEIGHT", "WHOLE_WEIGHT"),
    "paused queues are served": Mutant("not page.paused and ", ""),
    "a dead session may claim": Mutant(
        "if claim[5] ~= '' and not is_alive(claim[5]) then", "if false then"
    ),
    "a claim counts no try": Mutant("pack('>I4', attempt + 1)", "pack('>I4', attempt)"),
    "a claim is no new revision": Mutant(
        "return pack('>I4', revision + 1) .. token", "return pack('>I4', revision) .. token"
    ),
    "time limits are ignored": Mutant(
        "local lease_end = timeout and NOW + timeout", "local lease_end = NOW + A_DAY"
    ),
    "deadlines are ignored": Mutant("if visibility and not stays then", "if false then"),
    "leases that stay are bound to sessions": Mutant("not stays and claim[5] or ''", "claim[5]"),
    "a lane's head is not looked up again": Mutant("if head == before then", "if before then"),
    "a shut lane is never opened": Mutant(
        "page.opened[key] = true\n    if used == 0", "if used == 0"
    ),
    "turning the order forgets the heads": Mutant(
        "call('DEL', T .. ':h:' .. queue, T .. ':o:' .. queue, T .. ':z:' .. queue)", ""
    ),
    "the rank is ignored": Mutant(
        "page.time_first and turned(order) or order\nend", "turned(order)\nend"
    ),
    "leases of dead sessions are not found": Mutant("dead and '+inf' or now", "now"),
    "waits that ran out are not found": Mutant(
        "call('ZRANGEBYSCORE', T .. ':until', '-inf', now,",
        "call('ZRANGEBYSCORE', T .. ':until', 0, 1,",
    ),
    "a dead session is revived": Mutant("unpack_struct('>i8', kept) > NOW and kept", "kept"),
    "what is to be forgotten is not found": Mutant(
        "T .. ':kept', '-inf', moment()", "T .. ':kept', '-inf', 0"
    ),
    "nobody hears of dead sessions": Mutant("return has_dead_sessions() or #lost", "return #lost"),
}


def mutated(mutant: Mutant) -> Library:
    """The library with one fault, under a name of its own."""
    sound = library()
    assert sound.code.count(mutant.sound) == 1, f"the mutant no longer fits: {mutant.sound}"
    code = sound.code.replace(mutant.sound, mutant.broken)
    return Library(code.replace(sound.digest, "mutant"), "mutant")


def walk_far() -> None:
    for seed in range(SEEDS):
        walk("redis", seed, STEPS)


@pytest.mark.parametrize("name", MUTANTS)
def test_the_walk_kills_the_mutant_in_which(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = mutated(MUTANTS[name])
    monkeypatch.setattr(wire, "library", lambda: broken)
    try:
        with pytest.raises(AssertionError):
            walk_far()
    finally:
        with valkey.default_server().client() as client:
            client.function_delete("stoker_mutant")
