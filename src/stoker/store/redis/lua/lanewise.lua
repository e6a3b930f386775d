-- Choosing by lanes: a shorter way where nothing decides but keys with limits, turns, or both.
--
-- The foremost heads are taken in their order, many at once, as long as nobody who follows one of
-- them comes before the next. Then their lanes have moved up, and the heads are looked at again. Where
-- that yields little, or there is more to heed, jobs are chosen by walking (walk.lua), which is the
-- authority: both ways choose the same.
--
-- A round is what is known of some heads and what becomes of them: lists in which each head has its
-- place (members, names, tails, fields, numbers, kept, bodies), and lists of what is to be written,
-- with how far they are filled: asking a list for its length takes time. A tail is an order without
-- the bucket, which is the same for all: every piece of text that is not made saves more than that.

local ENOUGH = 10 -- heads that a round must be worth: less costs more than walking

-- Lanes come up again and again: the fields of those with short names are made once for many calls.
local SHORT, MOST_KNOWN = 64, 4096
local known, known_bucket, known_count = {}, '', 0

-- May jobs of this queue be chosen so? All of them must stand in lanes of one bucket each.
local function goes_by_lanes(page)
  return page.only_keys and page.laned == page[0] and (page.time_first or page.rank ~= MIXED)
    and call('EXISTS', page.free_line) == 0
end

-- -- heads ----------------------------------------------------------------------------------

-- Some who stand as far as the clock, and some who may be further: in order, no more than wanted.
local function merged(level, ahead, clock, wanted)
  local found, i, j = {}, 1, 1
  while #found < wanted and (level[i] or ahead[j]) do
    local one, other = level[i], ahead[j]
    if not other or (one and (sub(other, 1, 8) > clock or sub(one, 9) < sub(other, 9))) then
      found[#found + 1], i = one, i + 1
    else
      found[#found + 1], j = other, j + 1
    end
  end
  return found
end

-- The foremost heads of a fair queue; and whether they stand in its line without others between.
local function foremost_by_turns(page, wanted)
  local line, clock, none = page.head_line, sortable(page.clock), sortable(0)
  local ahead = call('ZRANGEBYLEX', line, '[' .. clock, '+', 'LIMIT', 0, wanted)
  if page.clock == 0 then
    return ahead, true
  end
  local level = call('ZRANGEBYLEX', line, '[' .. none, '[' .. none .. HIGH, 'LIMIT', 0, wanted)
  if #level == 0 then
    return ahead, true
  end
  return merged(level, ahead, clock, wanted), false
end

-- The same for every queue: only heads that are due.
local function foremost_heads(page, bucket, wanted)
  if page.fair then
    return foremost_by_turns(page, wanted)
  end
  local to = '[' .. bucket .. NOW8 .. HIGH
  return call('ZRANGEBYLEX', page.head_line, '-', to, 'LIMIT', 0, wanted), true
end

local function fields_of(names, bucket)
  if known_bucket ~= bucket or known_count > MOST_KNOWN then
    known, known_bucket, known_count = {}, bucket, 0
  end
  local fields = {}
  for i = 1, #names do
    local name = names[i]
    local field = known[name]
    if not field then
      field = in_lane(name, bucket)
      if #name <= SHORT then
        known[name], known_count = field, known_count + 1
      end
    end
    fields[i] = field
  end
  return fields
end

local function new_round(page, wanted)
  local bucket, size, names, tails, numbers
    = page.time_first and '' or page.rank, page.head_size, {}, {}, {}
  local members, gapless = foremost_heads(page, bucket, wanted)
  local first = size - 21 + #bucket
  for i = 1, #members do
    local member = members[i]
    names[i], tails[i] = sub(member, size + 1), sub(member, first, size)
    numbers[i] = sub(member, size - 5, size)
  end
  local fields = fields_of(names, bucket)
  if page.counts_keys then
    look_up_use(page, 'u', names)
  end
  local read = is_sorted(numbers) and fetch or fetch_scattered
  return {
    members = members, gapless = gapless, names = names, tails = tails, fields = fields,
    numbers = numbers, kept = kept_heads(page, fields), bodies = read('j', numbers),
    come = {}, filled = 0, set = {}, known = 0, cleared = {}, left = {}, taken = 0, full = {},
    moved = {}, clock = page.clock, bucket = bucket, due = NOW8 .. HIGH,
  }
end

-- -- taking ---------------------------------------------------------------------------------

-- Has a head's key room? Then it has less from now on.
local function enters(page, name, weight)
  local limit, use = page.keys[name] or page.key_capacity, page.in_use.u
  local used = use[name]
  if limit and used + weight > limit and used > 0 then
    return false
  end
  use[name], page.moved.u[name] = used + weight, true
  return true
end

-- The turn of a head: nobody is further back than the clock. Where none are taken all are the same.
local function turn_of(page, round, i)
  local turn = page.fair and unsorted(sub(round.members[i], 1, 8)) or 0
  return turn > round.clock and turn or round.clock
end

-- A key has had a turn; returns the next one.
local function take_turn(page, round, name, turn, weight)
  local turns_each = page.rules.turns and page.rules.turns[name]
  local length = turns_each and math.floor(weight * WHOLE_WEIGHT / turns_each) or weight
  local next_turn = turn + length
  round.clock, page.served[name] = turn, next_turn
  return next_turn
end

-- Nobody is foremost in a lane now whose head was taken, or somebody who sleeps.
local function leave_empty(page, round, i, order, turn)
  local name = round.names[i]
  round.cleared[#round.cleared + 1], round.moved[name] = round.fields[i], turn
  if order then
    falls_asleep(page, name, order)
  end
end

-- Who follows a head that is taken is foremost in its lane; returns its tail, unless it sleeps.
local function move_up(page, round, i, member, turn)
  local name, bucket, kept = round.names[i], round.bucket, round.kept[i]
  local at, news = behind_head(page, kept, round.tails[i]), nil
  if at > #kept then
    news = orders_behind(page, name, member, round.fields[i])
    if news == '' then
      return leave_empty(page, round, i, nil, turn)
    end
    kept, at = news, 1
  end
  local tail, number = sub(kept, at + #bucket, at + 21), ''
  if page.fair then
    if tail > round.due then
      return leave_empty(page, round, i, bucket .. tail, turn)
    end
    number = sortable(turn)
    news = number .. sub(kept, at)
  end
  local come, n = round.come, round.filled
  come[n + 1], come[n + 2], round.filled = '0', number .. bucket .. tail .. name, n + 2
  if news then
    local set, m = round.set, round.known
    set[m + 1], set[m + 2], round.known = round.fields[i], news, m + 2
  end
  return tail
end

-- Takes a head out of its lane; returns what it was there.
local function note_taken(page, round, i, taken)
  local n, left, member = taken.count + 1, round.taken + 1, round.fields[i] .. round.tails[i]
  taken.numbers[n], taken.pages[n], taken.tasks[n] = round.numbers[i], page, false
  taken.bodies[n], taken.count = round.bodies[i], n
  round.left[left], round.taken = member, left
  return member
end

local function is_before(turn, tail, other_turn, other_tail)
  return turn < other_turn or (turn == other_turn and tail < other_tail)
end

-- Takes the heads of a round until somebody else would come first; returns how many were passed.
local function take_heads(page, round, taken)
  local last, tails = #round.members, round.tails
  local last_turn, last_tail = turn_of(page, round, last), tails[last]
  local least_turn, least = nil, nil -- the foremost of those who follow, if that is among the heads
  for i = 1, last do
    local turn, name = turn_of(page, round, i), round.names[i]
    if least and is_before(least_turn, least, turn, tails[i]) then
      return i - 1
    end
    local weight = weight_of(round.bodies[i])
    if page.counts_keys and not enters(page, name, weight) then
      round.full[#round.full + 1] = i
    else
      local member = note_taken(page, round, i, taken)
      local next_turn = page.fair and take_turn(page, round, name, turn, weight) or turn
      local follower = move_up(page, round, i, member, next_turn)
      if follower and is_before(next_turn, follower, least_turn or last_turn, least or last_tail) then
        least_turn, least = next_turn, follower
      end
    end
  end
  return last
end

-- -- writing --------------------------------------------------------------------------------

-- All that were passed leave the line of heads: those that were taken, and those that found no room.
local function remove_heads(page, round, passed)
  local line, members = page.head_line, round.members
  if round.gapless then
    call('ZREMRANGEBYLEX', line, '[' .. members[1], '[' .. members[passed])
  else
    call_many('ZREM', line, {spread(members, 1, passed)}, 1)
  end
end

local function write_round(page, round, passed)
  remove_heads(page, round, passed)
  call_many('ZADD', page.head_line, round.come, 2)
  call_many('HSET', T .. ':o:' .. page.queue, round.set, 2)
  call_many('HDEL', T .. ':o:' .. page.queue, round.cleared, 1)
  call_many('ZREM', page.lane_line, round.left, 1)
  page.laned, page.changed = page.laned - round.taken, true
  if page.fair then
    remember_turns(page, round.clock, round.moved)
  end
  for _, i in ipairs(round.full) do
    shut_lane(page, round.names[i], round.bucket .. round.tails[i])
  end
end

-- Takes up to so many jobs of a queue. Returns whether there may be more: then it has to be walked.
function take_by_lanes(page, limit, taken)
  if not goes_by_lanes(page) then
    return true
  end
  local step = STEP
  while taken.count < limit and page.laned > 0 do
    local round = new_round(page, math.min(step, limit - taken.count))
    local seen = #round.members
    if seen == 0 then
      return false
    end
    local passed = take_heads(page, round, taken)
    write_round(page, round, passed)
    if taken.count < limit and (passed < ENOUGH or 2 * passed < seen) then
      return page.laned > 0
    end
    step = MOST_ARGUMENTS
  end
  return false
end
