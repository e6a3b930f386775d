-- Walking the lines of one queue: which job is the next that may be asked.
--
-- A queue is walked in its order up to what is due; jobs that are not due are never looked at.
-- Jobs with a key stand in lanes, of which only the heads are looked at, so that a key without room
-- costs nothing, however many jobs it has; and so do those of tasks with a limit. In a queue whose
-- jobs age each rank is a line of its own, and the ranks are merged.
--
-- An entry stands for the foremost job from its source, and then for the next one: what it is sorted
-- by, the job's order, its weight and body once they are asked for, the source, and the line behind
-- it unless that is its lane. In a fair queue also the turn, and how far its key had been served.
-- The entry of a lane has its name, key and task, the field and the member that its head had, and
-- the orders of those known to follow, of which the next begins at `at`.

local READY, FREE_LINE, HEADS, HEAD = 1, 2, 3, 4 -- one among the heads, and one that has left them
FREE_LANE = {} -- in place of the entry of a lane
local BEFORE_ALL = rep('\0', 8)
local AHEAD = 8 -- followers that are looked up at once
local MOST_AT_ONCE = 256
STEP = 32 -- members of a line read first, where it is not known how many are wanted

-- -- lines ----------------------------------------------------------------------------------

-- How many members to read next. need: how many are wanted at most, and how many to read at once.
local function portion(need)
  local size = math.max(math.min(need.step, need.wanted), 1)
  need.step = math.min(2 * need.step, MOST_AT_ONCE)
  return size
end

-- The members of a line that begin alike, from one bound to another, a portion at a time; or what
-- `note` makes of them.
local function members(name, prefix, from, to, need, note)
  local found, shown, at = NONE, NONE, 0
  from, to = '[' .. prefix .. from, '[' .. prefix .. to .. HIGH
  return function()
    at = at + 1
    if not found[at] and from then
      local size = portion(need)
      found, at = call('ZRANGEBYLEX', name, from, to, 'LIMIT', 0, size), 1
      from = #found == size and '(' .. found[size]
      shown = note and note(found, #prefix) or found
    end
    return shown[at]
  end
end

-- The due members of a line, in its order. A member begins with an order.
function due_members(page, name, prefix, need, note)
  if page.time_first then
    return members(name, prefix, '', NOW8, need, note)
  end
  local found, shown, at, done, skip = NONE, NONE, 0, false, #prefix
  local from, to = '[' .. prefix, prefix == '' and '+' or '[' .. prefix .. HIGH
  return function()
    while true do
      at = at + 1
      local member = found[at]
      if not member then
        if done then
          return nil
        end
        local size = portion(need)
        found, at = call('ZRANGEBYLEX', name, from, to, 'LIMIT', 0, size), 0
        done = #found < size
        if not done then
          from = '(' .. found[#found]
        end
        shown = note and note(found, skip) or found
      elseif sub(member, skip + 9, skip + 16) <= NOW8 then
        return shown[at]
      else
        -- Nothing behind it is due in this rank: on to the next one.
        from, found, at, done = '(' .. sub(member, 1, skip + 8) .. HIGH, NONE, 0, false
      end
    end
  end
end

-- The due members of a line as one or more lines in the queue's order.
local function lines_in(page, name, prefix, need, note)
  if not page.ageing then
    return {due_members(page, name, prefix, need, note)}
  end
  local lines, from, to = {}, '[' .. prefix, prefix == '' and '+' or '[' .. prefix .. HIGH
  while true do
    local first = call('ZRANGEBYLEX', name, from, to, 'LIMIT', 0, 1)[1]
    if not first then
      return lines
    end
    local rank = sub(first, #prefix + 1, #prefix + 8)
    lines[#lines + 1] = members(name, prefix, rank, rank .. NOW8, need, note)
    from = '(' .. prefix .. rank .. HIGH
  end
end

local function lines_of_heads(walk, task)
  local page = walk.page
  local name, prefix = line_of_heads(page, task)
  if page.fair then
    local nobody_behind, clock = sortable(0), sortable(page.clock)
    local lines = {members(name, prefix, clock, '', walk.need, walk.note_heads)}
    if page.clock > 0 then
      lines[2] = members(name, prefix, nobody_behind, nobody_behind, walk.need, walk.note_heads)
    end
    return lines
  end
  return lines_in(page, name, prefix, walk.need, walk.note_heads)
end

-- Who comes next in an entry's lane and bucket, due or not; false: nobody.
local function next_in_lane(page, entry)
  if entry.at > #entry.front then
    local orders, lane = {}, 4 + #entry.name
    local found = call('ZRANGEBYLEX', page.lane_line, '(' .. in_lane(entry.name, entry.order),
      '[' .. entry.field .. HIGH, 'LIMIT', 0, AHEAD)
    for i = 1, #found do
      orders[i] = sub(found[i], lane + 1)
    end
    entry.front, entry.at = concat(orders), 1
  end
  local at = entry.at
  entry.at = at + 22
  return at <= #entry.front and sub(entry.front, at, at + 21)
end

-- -- what is known of those to come ---------------------------------------------------------

-- Bodies are read many at a time, when the first weight is asked for.
local function note_numbers(walk, found)
  local upcoming, n = walk.upcoming, #walk.upcoming
  for i = 1, #found do
    upcoming[n + i] = sub(found[i], 17)
  end
end

-- The entry of a lane, by its member in a line of heads, where that begins after the given place.
local function head_entry(page, member, skip)
  local last = skip + page.head_size
  local order, name = sub(member, last - 21, last), sub(member, last + 1)
  local key, task = key_and_task(name)
  return {
    false, order = order, weight = false, body = false, source = HEADS, line = false,
    turn = false, served = page.fair and unsorted(sub(member, skip + 1, skip + 8)),
    name = name, key = key, task = task, field = in_lane(name, bucket_of(page, order)),
    head = page.fair and sub(member, skip + 1, last) or order, front = '', at = 1, left = false,
  }
end

-- The entries of these heads, with what is kept of their lanes and their keys.
local function note_heads(walk, found, skip)
  local page, keys, fields, numbers, entries = walk.page, {}, {}, {}, {}
  for i = 1, #found do
    local entry = head_entry(page, found[i], skip)
    entries[i], keys[i], fields[i] = entry, entry.key or false, entry.field
    numbers[i] = sub(entry.order, 17)
  end
  look_up_use(page, 'u', keys)
  local kept, read = kept_heads(page, fields), is_sorted(numbers) and fetch or fetch_scattered
  local bodies, first = read('j', numbers), page.head_size + 1
  for i = 1, #found do
    local entry = entries[i]
    entry.body, entry.front, entry.at = bodies[i], kept[i], first
  end
  return entries
end

-- Reads an entry's body with all others noted, and with those known to follow in its lane.
local function read_bodies(walk, entry, number)
  local numbers = walk.upcoming
  numbers[#numbers + 1], walk.upcoming = number, {}
  for at = entry.at or 1, entry.source == HEAD and #entry.front or 0, 22 do
    numbers[#numbers + 1] = sub(entry.front, at + 16, at + 21)
  end
  if not is_sorted(numbers) then
    table.sort(numbers)
  end
  for i, body in ipairs(fetch('j', numbers)) do
    walk.bodies[numbers[i]] = body
  end
end

local function body_of(walk, entry)
  local number = sub(entry.order, 17)
  if not walk.bodies[number] then
    read_bodies(walk, entry, number)
  end
  return walk.bodies[number]
end

-- The weight of an entry's job, as far as somebody has to know it.
local function weigh(walk, entry)
  if entry.source == FREE_LINE then
    entry.weight = 0
  elseif not walk.page.weighs then
    entry.weight = WHOLE_WEIGHT
  else
    local body = entry.body or body_of(walk, entry)
    entry.body = body
    entry.weight = byte(body) == 0 and WHOLE_WEIGHT or head_of(body)[8]
  end
end

-- -- entries --------------------------------------------------------------------------------

-- Whose turn it is is reckoned with what was taken in this claim.
local function turn_of(walk, entry)
  local turn, clock = walk.moved[entry.key or false] or entry.served, walk.clock
  return turn > clock and turn or clock
end

-- The lines have their own heap, since all but one of those that left them mostly wait in vain.
local function add(walk, entry)
  local page, order = walk.page, entry.order
  local rating = page.ageing and rating_of(page, order) or order
  if not page.fair then
    entry[1] = rating
  elseif entry.source == FREE_LINE then
    entry[1] = BEFORE_ALL .. rating
  else
    entry.turn = turn_of(walk, entry)
    entry[1] = sortable(entry.turn) .. rating
  end
  push(entry.source == HEAD and walk.lanes or walk.fronts, entry)
end

-- The next job without a lane, or of weight 0.
local function go_on_in_line(walk, entry)
  entry.order = entry.line()
  if entry.order then
    entry.weight, entry.body = false, false
    add(walk, entry)
  end
end

local function line_entry(walk, source, line)
  return {
    false, order = false, weight = false, body = false, source = source, line = line,
    turn = false, served = walk.nobodys,
  }
end

local function next_head(walk, line)
  repeat
    local entry = line()
    if not entry then
      return
    end
    entry.line = line
    if walk.moved and walk.moved[entry.key or false] then
      entry.source = HEAD -- its place among the heads is no longer its own
    end
    add(walk, entry)
  until entry.source == HEADS
end

local function go_on_in_lane(walk, entry)
  if not entry.left then
    entry.left = true
    walk.left[#walk.left + 1] = entry
  end
  entry.order, entry.source = next_in_lane(walk.page, entry), HEAD
  entry.weight, entry.body = false, false
  if entry.order and due_of(walk.page, entry.order) <= NOW8 then
    add(walk, entry)
  end
end

-- -- jobs that are taken ----------------------------------------------------------------------

-- taken: how many, and of each its order, its queue's page, its lane (false if it has none), and its
-- body as far as it was read.
function note_taken(taken, page, order, lane, body)
  local n = taken.count + 1
  taken.count, taken.orders[n], taken.pages[n] = n, order, page
  taken.lanes[n], taken.bodies[n] = lane, body
end

-- -- walking --------------------------------------------------------------------------------

local function new_walk(page, door, need)
  local walk = {
    page = page, door = door, need = need, fronts = {}, lanes = {}, aside = {}, full = {},
    is_full = {}, left = {}, upcoming = {}, bodies = {},
  }
  function walk.note_heads(found, skip)
    return note_heads(walk, found, skip)
  end
  if page.weighs then
    function walk.note(found)
      note_numbers(walk, found)
    end
  end
  if page.fair then
    walk.clock, walk.moved, walk.nobodys = page.clock, {}, served(page, false)
  end
  return walk
end

-- All lines of a queue, before the first has been asked.
function set_out(page, door, need)
  if page.dozes then
    wake_lanes(page)
  end
  if page.fair then
    level_turns(page)
  end
  local walk = new_walk(page, door, need)
  for _, line in ipairs(lines_in(page, page.line, '', need, walk.note)) do
    go_on_in_line(walk, line_entry(walk, READY, line))
  end
  if page.laned == 0 then
    return walk
  end
  for _, line in ipairs(lines_in(page, page.free_line, '', need)) do
    go_on_in_line(walk, line_entry(walk, FREE_LINE, line))
  end
  for _, line in ipairs(lines_of_heads(walk)) do
    next_head(walk, line)
  end
  for _, task in ipairs(page.tasks) do
    for _, line in ipairs(lines_of_heads(walk, task)) do
      next_head(walk, line)
    end
  end
  return walk
end

-- The heap of which the first entry is foremost.
local function first_heap(walk)
  local front, lane = walk.fronts[1], walk.lanes[1]
  return (lane and not (front and front[1] <= lane[1])) and walk.lanes or walk.fronts
end

-- The foremost one's key has had a turn meanwhile, with a job of another rank or task.
local function put_back(walk)
  local entry = pop(walk.first)
  local line = entry.source == HEADS and entry.line
  if line then
    entry.source = HEAD
    next_head(walk, line)
  end
  add(walk, entry)
end

-- Who waits for no room goes on, whatever is full.
local function only_free(heap)
  local free = {}
  for _, entry in ipairs(heap) do
    if entry.source == FREE_LINE then
      push(free, entry)
    end
  end
  return free
end

-- Lets those come to the fore who were behind, as far as somebody is wanted.
local function go_on(walk, entry, barred)
  local source, line, wanted = entry.source, entry.line, walk.need.wanted > 0
  if source == READY or source == FREE_LINE then
    if wanted then
      go_on_in_line(walk, entry)
    end
    return
  end
  if not barred then
    go_on_in_lane(walk, entry)
  end
  if wanted and source == HEADS and barred ~= TASK_FULL then -- then all heads are of that task
    next_head(walk, line)
  end
end

local function pass_over(walk, barred)
  local entry = pop(walk.first)
  if barred == KEY_FULL and not walk.is_full[entry.name] then
    walk.is_full[entry.name] = true
    walk.full[#walk.full + 1] = entry
  elseif barred == SHARE_FULL then
    walk.aside[#walk.aside + 1] = entry
  end
  go_on(walk, entry, barred)
end

-- The order of the next job whose key and task have room.
function foremost(walk)
  if not walk.stopped and is_full(walk.door) then
    walk.fronts, walk.lanes, walk.stopped = only_free(walk.fronts), {}, true
  end
  while true do
    walk.first = first_heap(walk)
    local entry = walk.first[1]
    if not entry then
      return nil
    elseif entry.turn and turn_of(walk, entry) ~= entry.turn then
      put_back(walk)
    else
      if not entry.weight then
        weigh(walk, entry)
      end
      local barred = bars(walk.door, entry, walk.lent)
      if not barred then
        return entry.order
      end
      pass_over(walk, barred)
    end
  end
end

local function take_turn(walk, entry)
  local turns = entry.key and walk.page.rules.turns
  local turns_each = turns and turns[entry.key] or WHOLE_WEIGHT
  walk.clock = entry.turn
  walk.moved[entry.key or false] = entry.turn + math.floor(entry.weight * WHOLE_WEIGHT / turns_each)
end

-- May the foremost one start? Then it is noted. It leaves the line, whatever the answer.
function let_in_foremost(walk, taken)
  local entry = pop(walk.first)
  if not lets_in(walk.door, entry) then
    return false -- nobody comes behind it but those who wait for no room
  end
  if entry.turn then
    take_turn(walk, entry)
  end
  local lane = entry.name and entry or entry.source == FREE_LINE and FREE_LANE
  note_taken(taken, walk.page, entry.order, lane, entry.body)
  walk.need.wanted = walk.need.wanted - 1
  go_on(walk, entry)
  return true
end

-- Those that were beyond their share come once more, with their lanes behind them.
function set_out_again(walk)
  walk.fronts, walk.lanes, walk.lent, walk.stopped = {}, {}, true, false
  for _, entry in ipairs(walk.aside) do
    entry.source = HEAD
    add(walk, entry)
  end
  walk.aside = {}
end
