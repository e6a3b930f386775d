"""Would we notice? Each mutant breaks the functions in the Redis server in one place; the walk must
kill it, or one of a few scenes.

A mutant that survives means that the walk no longer looks where it should.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from stoker.desk import Desk
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store.memory import MemoryStore
from tests.engines import ENGINES, VirtualClock
from tests.model.lives import QUEUES, Lives, SeededChooser
from tests.model.walk import walk
from tests.mutants.killers import likeliest_first
from tests.mutants.scenes import SCENES
from tests.servers.functions import changed, forget

SEEDS, STEPS = 40, 200


Settings = Mapping[str, QueueSettings]


class Mutant(NamedTuple):
    sound: str
    broken: str
    settings: Settings | None = None
    """Of the queues, where the fault shows only with some that a walk seldom has for long."""


WITHIN = {
    "b": QueueSettings(capacity=3),
    "a/1": QueueSettings(within="b"),
    "a/2": QueueSettings(within="b"),
}
PAUSED = {**WITHIN, "b": QueueSettings(paused=True)}
SHARED = dict.fromkeys(
    QUEUES, QueueSettings(capacity=4, shares={"x": 25, "y": 25, "z": 50}, lend=True)
)
BUCKET = dict.fromkeys(QUEUES, QueueSettings(rate=parse_rate("1 per 2s, burst 3")))
BY_KEY = dict.fromkeys(QUEUES, QueueSettings(key_rate=parse_rate("2 per 5s")))
KEYED = dict.fromkeys(QUEUES, QueueSettings(key_capacity=4))
FAIR = dict.fromkeys(QUEUES, QueueSettings(fair=True, key_capacity=2))
FAIR_TASKS = dict.fromkeys(QUEUES, QueueSettings(fair=True, tasks={"n": 5}))

# What happens in a queue that is used for what it is told.
BUSY = (Lives.enqueue, Lives.claim, Lives.claim, Lives.report, Lives.report, Lives.pass_time)


MUTANTS = {
    "a late worker's report is accepted": Mutant(
        "life and sub(life, 1, GUARD_END) == guard", "life and true"
    ),
    "only the revision is compared": Mutant("GUARD_END = 12", "GUARD_END = 4"),
    "a sign of life needs no lease": Mutant(
        "if not touch.life or sub(touch.life, 5, 12) ~= touch[2] then", "if not touch.life then"
    ),
    "a Change with one stale copy is believed": Mutant(
        "if #stale > 0 or #stale_notes > 0 then", "if #stale_notes > 0 then"
    ),
    "twins are not looked for": Mutant("if #twins > 0 then", "if false then"),
    "names that are given up are kept": Mutant(
        "call('HDEL', T .. ':n:'", "call('HGET', T .. ':n:'"
    ),
    "jobs that leave are still counted": Mutant("count(page, stand[STATE], -#numbers)", ""),
    "a released unit of capacity is forgotten": Mutant(
        "page.used = page.used + units", "page.used = page.used + math.max(units, 0)"
    ),
    "a key's use is forgotten": Mutant(
        "if units == 0 or not page.by_key then", "if units <= 0 or not page.by_key then"
    ),
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
    "jobs start before they are due": Mutant(
        "if sub(found[i], skip + 9, skip + 16) > NOW8 then", "if false then"
    ),
    "a full key lets more in": Mutant(
        "elseif key_refuses(door, name, key, weight) then", "elseif false then"
    ),
    "a full task lets more in": Mutant(
        "of_task and refuses(of_task, weight) and TASK_FULL or nil", "nil"
    ),
    "a full queue lets more in": Mutant("refuses(own, weight) or ", ""),
    "a full outer queue lets more in": Mutant(" or (outer and refuses(outer, weight))", "", WITHIN),
    "queues within another are not counted there": Mutant(
        "units = units + (member and member.used or tonumber(members[i + 1]))",
        "units = units",
        WITHIN,
    ),
    "the pause of an outer queue is not heeded": Mutant(
        " and not (outer and outer.paused)", "", PAUSED
    ),
    "a task's use is forgotten": Mutant(
        "use(page, 'v', tasks[i], units)", "use(page, 'v', tasks[i], math.max(units, 0))"
    ),
    "what runs is not counted when its task gets a limit": Mutant("    count_use(page)\n", ""),
    "who waits stays in its lane when its task gets a limit": Mutant(
        "    change_lanes(page)\n", ""
    ),
    "what started is not remembered": Mutant("if flow and flow.moved then", "if false then"),
    "a rate lets all in": Mutant("for age = flow.kept, 1, -1 do", "for age = 0, 1, -1 do"),
    "a bucket has no bottom": Mutant("return at > NOW and at or nil", "return nil", BUCKET),
    "a slice of time never passes": Mutant(
        "local passed = math.min(flow.index - numbers[2], flow.kept)", "local passed = 0"
    ),
    "lanes sleep on when their moment has come": Mutant("    wake_lanes(page)\n", ""),
    "nobody wakes a lane when its rate opens": Mutant(
        "  if opens_at then\n", "  if false then\n", BY_KEY
    ),
    "shares do not count": Mutant("door.page.rules.lent and not lent and", "false and", SHARED),
    "shares are not lent": Mutant(
        "if #aside > 0 and taken.count < limit then", "if false then", SHARED
    ),
    "nobody takes turns": Mutant("turn + turn_length(page, key, entry[WEIGHT])", "turn"),
    "turns are forgotten from claim to claim": Mutant(
        "call('ZADD', T .. ':p:' .. page.queue, 'GT', spread(reached, at, last))", ""
    ),
    "who could not start has all the turns it missed": Mutant(
        "return turn > clock and turn or clock",
        "return turn",
        FAIR,
    ),
    "who had a turn with a job of another task has one more": Mutant(
        "elseif entry[TURN] and turn_of(walk, entry) ~= entry[TURN] then",
        "elseif false then",
        FAIR_TASKS,
    ),
    "jobs do not age": Mutant("* page.ageing + unsorted", "* 1e13 + unsorted"),
    "those behind the head of a lane are not seen": Mutant(
        "  if not barred then\n    go_on_in_lane", "  if false then\n    go_on_in_lane"
    ),
    "weights are ignored": Mutant("or head_of(body)[8]\n", "or WHOLE_WEIGHT\n"),
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
    "by lanes, jobs that stand in none are overlooked": Mutant(
        "page.laned == page[0] and", "", KEYED
    ),
    "by lanes, jobs without weight are overlooked": Mutant(
        "    and call('EXISTS', page.free_line) == 0\n", "", KEYED
    ),
    "a lane's row is not looked up again": Mutant(
        "if not kept[i] or moved[i] <= sub(kept[i], -22) then", "if not kept[i] then"
    ),
    "who has left is still among the heads": Mutant(
        "page.gone[member] = true\n    lane_moved(page, lane, order)\n",
        "page.gone[member] = true\n",
    ),
    "a shut lane is never opened": Mutant(
        "page.opened[key] = true\n  end\n  if page.counts_keys", "end\n  if page.counts_keys"
    ),
    "units of keys are not counted when they get a limit": Mutant(
        "if before.use ~= encode(", "if other_lanes and before.use ~= encode("
    ),
    "turning the order forgets the heads": Mutant("    make_heads_anew(page)\n", ""),
    "the rank is ignored": Mutant(
        "place .. number\n  return page.time_first and turned(order) or order",
        "place .. number\n  return turned(order)",
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


AMONG_KEYS = {
    "a full key lets more in": Mutant("limit and used + weight > limit and", "false and"),
    "what is too heavy for a key never starts": Mutant(
        "used + weight > limit and used > 0 then", "used + weight > limit then"
    ),
    "weights are ignored": Mutant("weight = weight_of(bodies[i])", "weight = WHOLE_WEIGHT"),
    "who lines up before the next is passed over": Mutant(
        "if round.least and is_overtaken(page, round.least, members[i]) then", "if false then"
    ),
    "the foremost of those who line up is forgotten": Mutant(
        "if not round.least or row[1] < round.least then", "if not round.least then"
    ),
    "nobody is walked to": Mutant("      return page.laned > 0\n", "      return false\n"),
    "nobody is looked at again": Mutant("    step = MOST_ARGUMENTS\n", "    break\n"),
    "jobs start before they are due": Mutant("'[' .. bucket .. NOW8 .. HIGH", "'[' .. HIGH"),
    "a lane that found no room is forgotten": Mutant(
        "    shut_lane(page, sub(member, size + 2),", "    tostring(page,"
    ),
    "what is due tomorrow has a turn today": Mutant(
        "elseif falls_asleep(page, name, orders[1]) then", "elseif false then"
    ),
    "nobody takes turns": Mutant(
        "local turns_each = key and", "if true then return 0 end\nlocal turns_each ="
    ),
    "all have turns of the same length": Mutant(
        "local turns_each = key and page.rules.turns and page.rules.turns[key]",
        "local turns_each = nil",
    ),
    "what many jobs gave back together is forgotten": Mutant(
        "known[key], moved[key] = known[key] + units, true",
        "known[key], moved[key] = known[key] + math.max(units, 0), true",
    ),
    "jobs that end together open no lane": Mutant("page.opened[keys[i]] = true\n", "\n"),
    "turns are not remembered": Mutant(
        "    remember_turns(page, round.latest and", "    tostring(page, round.latest and"
    ),
    "those as far as the clock are before all others": Mutant(
        "sub(other, 1, 8) > clock or sub(one, 9) < sub(other, 9)", "true"
    ),
    "those further than the clock are before it": Mutant(
        "sub(other, 1, 8) > clock or sub(one, 9)", "sub(one, 9)"
    ),
    "heads between others are lost": Mutant("if round.gapless then", "if true then"),
    "jobs of several ranks are chosen by the first": Mutant(
        "and not has_buckets(page)\n    and call", "and call"
    ),
    "use is not written": Mutant("use[name], page.moved.u[name] = used + weight, true", ""),
    "a lane whose job is due tomorrow never wakes": Mutant(
        "  call('ZADD', T .. ':d:' .. page.queue, 'LT', whole(unsorted(due)), name)\n  return true",
        "  return true",
    ),
    "a key whose lane is empty has no turn behind it": Mutant(
        "changes.cleared[#changes.cleared + 1], round.moved[name] = field, number",
        "changes.cleared[#changes.cleared + 1] = field",
    ),
    "a key whose lane is shut has no turn behind it": Mutant(
        "  if number > page.clock then\n    local reached", "  if false then\n    local reached"
    ),
}


IN_CROWDS = {
    "a row stands at one number": Mutant("sortable(number + (i - 1) * length)", "sortable(number)"),
    "those of a row who step back are lost": Mutant(
        "  call_many('ZADD', page.lane_line, back, 2)\n", ""
    ),
    "who left a row steps back with it": Mutant(
        "if i < last and not page.gone[member] then", "if i < last then"
    ),
    "those of a row who found no room are lost": Mutant(
        "  call_many('ZADD', page.lane_line, round.back, 2)\n", ""
    ),
    "whoever stands behind one that found no room may overtake it": Mutant(
        "if round.shut[name] or limit and", "if limit and"
    ),
    "a row goes on as it was when a job of another weight was taken": Mutant(
        "  return round.crooked\n", "  return false\n"
    ),
    "a row that does not count on is left as it is": Mutant(
        "    settle_wholly(page, {round.crooked})\n", ""
    ),
    "who lined up stands behind as well": Mutant("    move_on(page, name, field, own, row)\n", ""),
    "who comes sooner behind a light job is not called": Mutant(
        "if walk.moved and walk.moved[entry[WHOSE]] < number_behind(page, entry) then",
        "if false then",
    ),
    "who was called comes once more": Mutant(
        "elseif (walk.called[entry[MEMBER]] or entry) ~= entry then", "elseif false then"
    ),
    "a row is not lined up anew after a walk": Mutant(
        "    walk.crooked[#walk.crooked + 1] = entry[NAME]\n", ""
    ),
    "who joins among those of a row is overlooked": Mutant(
        "moved[i] <= sub(kept[i], -22)",
        "moved[i] <= sub(kept[i], page.head_size - 21, page.head_size)",
    ),
}


IN_SCENES = {
    "a note's guard is not looked at": Mutant(
        "if #stale > 0 or #stale_notes > 0 then", "if #stale > 0 then"
    ),
    "keys that get a second head have no turn behind them": Mutant(
        "    write_turns_of_heads(page, page.head_size)\n", ""
    ),
    "who gets another rank has no turn behind it": Mutant(
        "if is_other and page.fair", "if is_other and page.laned > 1 and page.fair"
    ),
    "keys have no turn behind them when heads are made anew": Mutant(
        "    write_turns_of_heads(page, size)\n", ""
    ),
}


def walk_far(name: str, walk_from: Callable[[int], None]) -> None:
    for seed in likeliest_first("redis", name, range(SEEDS)):
        walk_from(seed)


def walk_among(settings: Settings, seed: int) -> None:
    """A walk in queues whose settings stay as they are."""
    clock = VirtualClock()
    with ENGINES["redis"](clock) as store:
        lives = Lives(SeededChooser(seed), clock, MemoryStore(clock), store)
        for desk in lives.desks:
            for queue, told in settings.items():
                desk.control.configure(queue, told)
        for _ in range(STEPS):
            lives.pick(BUSY)(lives)
            lives.compare()


def play_all() -> None:
    """Every scene comes out as on the reference."""
    for scene in SCENES:
        clocks = VirtualClock(), VirtualClock()
        with ENGINES["redis"](clocks[1]) as store:
            desks = Desk(MemoryStore(clocks[0])), Desk(store)
            told = [scene(desk, clock) for desk, clock in zip(desks, clocks, strict=True)]
        assert told[0] == told[1], scene.__name__


def assert_killed(mutant: Mutant, look: Callable[[], None]) -> None:
    try:
        with changed(mutant.sound, mutant.broken, "mutant"), pytest.raises(AssertionError):
            look()
    finally:
        forget("mutant")


@pytest.mark.parametrize("name", MUTANTS)
def test_the_walk_kills_the_mutant_in_which(name: str) -> None:
    settings = MUTANTS[name].settings

    def walk_from(seed: int) -> None:
        if settings is None:
            walk("redis", seed, STEPS)
        else:
            walk_among(settings, seed)

    assert_killed(MUTANTS[name], lambda: walk_far(name, walk_from))


@pytest.mark.parametrize("name", AMONG_KEYS)
def test_lives_of_keys_kill_the_mutant_in_which(name: str) -> None:
    def walk_from(seed: int) -> None:
        walk("redis", seed, STEPS, "keyed")

    assert_killed(AMONG_KEYS[name], lambda: walk_far(name, walk_from))


@pytest.mark.parametrize("name", IN_CROWDS)
def test_lives_of_crowds_kill_the_mutant_in_which(name: str) -> None:
    def walk_from(seed: int) -> None:
        walk("redis", seed, STEPS, "crowded")

    assert_killed(IN_CROWDS[name], lambda: walk_far(name, walk_from))


@pytest.mark.parametrize("name", IN_SCENES)
def test_a_scene_kills_the_mutant_in_which(name: str) -> None:
    assert_killed(IN_SCENES[name], play_all)
