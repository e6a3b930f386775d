"""The functions that run inside the server, as one library with a name of its own version.

Its name and those of its functions end in a digest of their text, so that processes with different
versions of Stoker get along on one server. Functions are kept and replicated like data; where they
are missing all the same, whoever needs them loads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

# In this order, since each builds upon those before it. Lua knows only so many names at a time:
# what some parts say is their own, but for the names that are given here.
_GROUND: Mapping[str, str] = {
    "base": "",
    "lives": "GUARD_END, WAITS_FOR_CHILDREN, NOBODY, NEVER, BORN, WAITING, lives_of, started, "
    "touched, told, state_of, hexadecimal, shown",
    "books": "NONE, MIXED, pages, obey, known_page, page_of, count, in_use, look_up_use, use, "
    "has_shut_lanes, burden, burden_key, burden_keys, in_use_within, close_books",
    "lines": "turned, order_of, in_lane, lane_for, key_and_task, each_lane, limited_tasks, "
    "bucket_of, lane_moved, party_of, write_turns, write_turns_of_heads, has_buckets, "
    "join, step_out, close_ranks",
    "heads": "rating_of, due_of, served, line_of_heads, LAST_MARK, no_changes, line_up, give_up, "
    "rewrite_heads, row_length, turn_length, row_of, orders_behind, move_on, members_of, step_back",
    "settling": "settle_wholly, shut_lane, wake_lanes, settle_lanes, level_turns, lanes_of, "
    "remember_turns",
    "settings": "configure",
    "stands": "QUEUE, STATE, KEY, leave, enter",
    "commit": "commit, note_revision, seal_on, take_numbers",
    "answers": "answered, remember, answered_or_remember",
    "rates": "flow_name, flow_of, free_at, flow_on, remember_flow",
    "gates": "KEY_FULL, TASK_FULL, SHARE_FULL, door_of, is_full, bars, lets_in, close_doors",
    "portions": "STEP, members_between, due_members, lines_in",
    "walk": "note_taken, note_leaving, set_out, foremost, let_in_foremost, set_out_again, "
    "leave_lanes, shut_lanes",
    "lanewise": "take_by_lanes",
    "claim": "serve, lease, note_leases, is_alive, told_lives",
    "standing": "leave_standing, start_at_once",
}
# Of these there is only what they export.
_FLOORS = ("transact", "place", "look", "watch", "people", "house")

_LOOKS, _EASES, _BURDENS = "no-writes", "allow-oom", ""

FUNCTIONS: Mapping[str, tuple[str, str]] = {
    "transact": ("transact", _BURDENS),
    "settle": ("transact", _EASES),
    "place": ("place", _BURDENS),
    "settle_in": ("settle_in", _BURDENS),
    **{name: (name, _EASES) for name in ("enrol", "beat", "retire", "hold", "tidy")},
    **{
        name: (name, _LOOKS)
        for name in ("get", "list", "held", "named", "scan", "in_line", "names")
    },
    **{name: (name, _LOOKS) for name in ("survey", "next_due", "flows", "notes", "sessions")},
    **{name: (name, _LOOKS) for name in ("lost", "adrift", "forgettable", "troubled")},
}
"""By the name under which it is called: what it is exported as, and what it does. A server
out of memory refuses only those that would burden it: reports and claims make room."""

# Nothing but `redis` is there while a library is loaded, so its parts are run by the first call.
_LIBRARY = """#!lua name=stoker_{digest}
local parts
local function library()
local exports = {{}}
{code}
return exports
end
{registered}
"""
_REGISTERED = """redis.register_function({{
  function_name = 'stoker_{name}_{digest}', flags = {{{flags}}},
  callback = function(keys, args)
    parts = parts or library()
    return parts.{called}(keys, args)
  end,
}})"""


class Library(NamedTuple):
    """What is loaded, and what stands behind the names of its functions."""

    code: str
    digest: str

    def function(self, name: str) -> str:
        """The name by which a function is called."""
        return f"stoker_{name}_{self.digest}"


@cache
def library() -> Library:
    """The library of this version."""
    files = resources.files("stoker.store.redis.lua")
    parts = (*_GROUND, *_FLOORS)
    texts = {part: files.joinpath(f"{part}.lua").read_text("utf-8") for part in parts}
    ground = [
        f"local {names}\ndo\n{texts[part]}end" if names else texts[part]
        for part, names in _GROUND.items()
    ]
    floors = [f"do\n{texts[part]}end" for part in _FLOORS]
    code = "\n".join([*ground, *floors])
    digest = hashlib.sha256(f"{FUNCTIONS}{code}".encode()).hexdigest()[:12]
    registered = "\n".join(
        _REGISTERED.format(
            name=name, digest=digest, called=called, flags=f"'{flag}'" if flag else ""
        )
        for name, (called, flag) in FUNCTIONS.items()
    )
    text = _LIBRARY.format(digest=digest, code=code, registered=registered)
    return Library(text, digest)
