-- Choosing by lanes: a shorter way where nothing decides but keys with limits, turns, or both.
--
-- The foremost heads are taken in their order, many at once, as long as nobody who lines up
-- meanwhile comes before the next. Then the heads are looked at again. Where that yields little, or
-- there is more to heed, jobs are chosen by walking (walk.lua), which is the authority: both ways
-- choose the same.
--
-- A round is what is known of some heads (members, numbers, bodies, and names where keys are
-- counted) and what becomes of them: the changes in the line of heads, the foremost of those who line
-- up (least), the head that was taken last (latest), who leaves the lane's line (left), who goes back
-- there (back), keys whose lane is empty and how far they got (moved), those whose lane found no room
-- (full, by name shut), and one whose row has to be lined up anew (crooked). Every piece of text that
-- is not made saves more than anything else.

local ENOUGH = 10 -- heads that a round must be worth: less costs more than walking

-- May jobs of this queue be chosen so? All of them must stand in lanes of one bucket each.
local function goes_by_lanes(page)
  return page.only_keys and page.laned == page[0] and not has_buckets(page)
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

local function new_round(page, wanted)
  local bucket, size, numbers, names = page.time_first and '' or page.rank, page.head_size, {}, {}
  local members, gapless = foremost_heads(page, bucket, wanted)
  for i = 1, #members do
    numbers[i] = sub(members[i], size - 5, size)
  end
  if page.counts_keys then
    for i = 1, #members do
      names[i] = sub(members[i], size + 2)
    end
    look_up_use(page, 'u', names)
  end
  page.served = {}
  local read = is_sorted(numbers) and fetch or fetch_scattered
  return {
    members = members, gapless = gapless, numbers = numbers, names = names,
    bodies = read('j', numbers), bucket = bucket, changes = no_changes(), taken = 0, left = {},
    back = {}, moved = {}, shut = {}, full = {},
  }
end

-- -- taking ---------------------------------------------------------------------------------

-- The lane and bucket of a head, and what its job is there.
local function place_in_lane(page, round, i)
  local member, size = round.members[i], page.head_size
  local name = sub(member, size + 2)
  local field = in_lane(name, round.bucket)
  return name, field, field .. sub(member, size - 21 + #round.bucket, size)
end

-- Has a head's key room? Then it has less from now on. Whoever found none holds back those behind.
local function enters(page, round, name, weight)
  local limit, use = page.keys[name] or page.key_capacity, page.in_use.u
  local used = use[name]
  if round.shut[name] or limit and used + weight > limit and used > 0 then
    return false
  end
  use[name], page.moved.u[name] = used + weight, true
  return true
end

local function turn_of(page, member)
  local number = unsorted(sub(member, 1, 8))
  return number > page.clock and number or page.clock
end

local function refuse(page, round, i)
  local member, name, _, own = round.members[i], place_in_lane(page, round, i)
  if byte(member, page.head_size + 1) ~= LAST_MARK then
    round.back[#round.back + 1], round.back[#round.back + 2] = '0', own
  end
  if not round.shut[name] then
    round.shut[name], round.full[#round.full + 1] = true, i
    page.served[name] = page.fair and unsorted(sub(member, 1, 8)) or nil
  end
end

-- The last of a row was taken: those behind line up. number: what their key has then.
local function next_row(page, round, i, number)
  local name, field, own = place_in_lane(page, round, i)
  local wanted = row_length(page)
  local orders = orders_behind(page, name, own, field, wanted)
  local row, changes = row_of(page, name, orders, number), round.changes
  if not row then
    changes.cleared[#changes.cleared + 1], round.moved[name] = field, number
  else
    line_up(page, changes, name, field, row)
    if not round.least or row[1] < round.least then
      round.least = row[1]
    end
  end
  if row and #row > 1 then
    move_on(page, name, field, own, row)
  else
    round.left[#round.left + 1] = own
  end
end

-- Takes a head; returns whether those after it have to be looked at again.
local function take_head(page, round, i, weight, taken)
  local n, member, next_turn = taken.count + 1, round.members[i], nil
  local is_last = byte(member, page.head_size + 1) == LAST_MARK
  taken.numbers[n], taken.pages[n], taken.tasks[n] = round.numbers[i], page, false
  taken.bodies[n], taken.count = round.bodies[i], n
  round.taken, round.latest = round.taken + 1, member
  page.uneven = page.uneven or weight ~= WHOLE_WEIGHT
  if page.fair and (is_last or weight ~= WHOLE_WEIGHT) then
    local name = sub(member, page.head_size + 2)
    next_turn = turn_of(page, member) + turn_length(page, name, weight)
    if not is_last then
      round.crooked, page.served[name] = name, next_turn
    end
  end
  if is_last then
    next_row(page, round, i, next_turn)
  end
  return round.crooked
end

-- Is the foremost of those who lined up in this round before a head?
local function is_overtaken(page, least, member)
  if page.fair and sub(member, 1, 8) < sortable(page.clock) then
    member = sortable(page.clock) .. sub(member, 9)
  end
  return least < member
end

-- Takes the heads of a round until somebody else would come first; returns how many were passed.
local function take_heads(page, round, taken)
  local members, bodies, names, counts = round.members, round.bodies, round.names, page.counts_keys
  for i = 1, #members do
    if round.least and is_overtaken(page, round.least, members[i]) then
      return i - 1
    end
    local weight = weight_of(bodies[i])
    if counts and not enters(page, round, names[i], weight) then
      refuse(page, round, i)
    else
      if take_head(page, round, i, weight, taken) then
        return i
      end
    end
  end
  return #members
end

-- -- writing --------------------------------------------------------------------------------

-- All that were passed leave the line of heads: who was taken, and who found no room.
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
  call_many('ZREM', page.lane_line, round.left, 1)
  call_many('ZADD', page.lane_line, round.back, 2)
  rewrite_heads(page, round.changes)
  page.laned, page.changed = page.laned - round.taken, true
  if page.fair then
    remember_turns(page, round.latest and turn_of(page, round.latest) or page.clock, round.moved)
  end
  if round.crooked then
    settle_wholly(page, {round.crooked})
  end
  for _, i in ipairs(round.full) do
    local member, size = round.members[i], page.head_size
    shut_lane(page, sub(member, size + 2), sub(member, size - 21, size))
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
