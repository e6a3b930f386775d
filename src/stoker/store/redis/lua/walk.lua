-- Walking the lines of one queue: which job is the next that may be asked.
--
-- A queue is walked in its order up to what is due; jobs that are not due are never looked at.
-- Jobs with a key stand in lanes, of which only the heads are looked at, so that a key without room
-- costs nothing, however many jobs it has; and so do those of tasks with a limit. In a queue whose
-- jobs age each rank is a line of its own, and the ranks are merged.
--
-- An entry is a job that nobody from its source precedes: what it is sorted by, order, source, the
-- line behind it unless that is its lane; name of its lane, key, task; in a fair queue its party,
-- how far that one had been served, and its turn; its weight and body, once it is foremost.

LEAN, READY, FREE_LINE = 0, 1, 2
local HEADS, HEAD = 3, 4 -- one among others, and one that has left them
local BEFORE_ALL = rep('\0', 8)
STEP = 32 -- members of a line read at once, where it is not known how many are wanted

-- -- lines ----------------------------------------------------------------------------------

-- The members of a line that begin alike, from one bound to another, without what they begin with;
-- `size` at a time, of which `note` is told.
local function members(name, prefix, from, to, size, note)
  local found, at, skip = NONE, 0, #prefix + 1
  from, to = '[' .. prefix .. from, '[' .. prefix .. to .. HIGH
  return function()
    at = at + 1
    if not found[at] and from then
      found, at = call('ZRANGEBYLEX', name, from, to, 'LIMIT', 0, size), 1
      from = #found == size and '(' .. found[size]
      if note then
        note(found, #prefix)
      end
    end
    return found[at] and (skip == 1 and found[at] or sub(found[at], skip))
  end
end

-- The due members of a line, in its order. A member begins with an order.
function due_members(page, name, prefix, size, note)
  if page.time_first then
    return members(name, prefix, '', NOW8, size, note)
  end
  local found, at, done, skip = NONE, 0, false, #prefix
  local from, to = '[' .. prefix, prefix == '' and '+' or '[' .. prefix .. HIGH
  return function()
    while true do
      at = at + 1
      local member = found[at]
      if not member then
        if done then
          return nil
        end
        found, at = call('ZRANGEBYLEX', name, from, to, 'LIMIT', 0, size), 0
        done = #found < size
        if not done then
          from = '(' .. found[#found]
        end
        if note then
          note(found, skip)
        end
      elseif sub(member, skip + 9, skip + 16) <= NOW8 then
        return skip == 0 and member or sub(member, skip + 1)
      else
        -- Nothing behind it is due in this rank: on to the next one.
        from, found, at, done = '(' .. sub(member, 1, skip + 8) .. HIGH, NONE, 0, false
      end
    end
  end
end

-- The due members of a line as one or more lines in the queue's order.
local function lines_in(page, name, prefix, size, note)
  if not page.ageing then
    return {due_members(page, name, prefix, size, note)}
  end
  local lines, from, to = {}, '[' .. prefix, prefix == '' and '+' or '[' .. prefix .. HIGH
  while true do
    local first = call('ZRANGEBYLEX', name, from, to, 'LIMIT', 0, 1)[1]
    if not first then
      return lines
    end
    local rank = sub(first, #prefix + 1, #prefix + 8)
    lines[#lines + 1] = members(name, prefix, rank, rank .. NOW8, size, note)
    from = '(' .. prefix .. rank .. HIGH
  end
end

local function lines_of_heads(walk, task)
  local page = walk.page
  local name, prefix = line_of_heads(page, task)
  if page.fair then
    local nobody_behind, clock = sortable(0), sortable(page.clock)
    local lines = {members(name, prefix, clock, '', walk.size, walk.note_heads)}
    if page.clock > 0 then
      lines[2] = members(name, prefix, nobody_behind, nobody_behind, walk.size, walk.note_heads)
    end
    return lines
  end
  return lines_in(page, name, prefix, walk.size, walk.note_heads)
end

-- The job behind another one in its lane and bucket, if it is due. Who is next, due or not, is
-- noted: it will be the foremost when those before it are gone.
local function behind(walk, name, order)
  local page, lane = walk.page, lane_of(name)
  local bucket = bucket_of(page, order)
  local found = call('ZRANGEBYLEX', page.lane_line, '(' .. lane .. order, '+', 'LIMIT', 0, 1)[1]
  local is_here = found and sub(found, 1, #lane + #bucket) == lane .. bucket
  local follower = is_here and sub(found, #lane + 1)
  local followers = walk.followers[name] or {}
  followers[bucket], walk.followers[name] = follower or NOBODYS, followers
  return follower and due_of(page, follower) <= NOW8 and follower
end

-- -- what is known of those to come ---------------------------------------------------------

-- Bodies are read many at a time, when the first weight is asked for.
local function note_numbers(walk, found, at)
  local upcoming = walk.upcoming
  for i = 1, #found do
    upcoming[#upcoming + 1] = sub(found[i], at + 17, at + 22)
  end
end

local function note_heads(walk, found, skip)
  local at, keys = walk.page.fair and skip + 30 or skip, {}
  for i = 1, #found do
    keys[i] = key_and_task(sub(found[i], at + 23)) or false
  end
  look_up_use(walk.page, 'u', keys)
  note_numbers(walk, found, at)
end

local function body_of(walk, number)
  local body = walk.bodies[number]
  if not body then
    local numbers = walk.upcoming
    numbers[#numbers + 1], walk.upcoming = number, {}
    table.sort(numbers)
    for i, each in ipairs(fetch('j', numbers)) do
      walk.bodies[numbers[i]] = each
    end
    body = walk.bodies[number]
  end
  return body
end

-- The weight of an entry's job, as far as somebody has to know it.
local function weigh(walk, entry)
  if entry.source == FREE_LINE then
    entry.weight = 0
  elseif not walk.page.weighs then
    entry.weight = WHOLE_WEIGHT
  else
    local body = body_of(walk, sub(entry.order, 17))
    entry.body = body
    entry.weight = byte(body) == 0 and WHOLE_WEIGHT or head_of(body)[8]
  end
end

-- -- entries --------------------------------------------------------------------------------

-- Whose turn it is is reckoned with what was taken in this claim.
local function turn_of(walk, entry)
  return math.max(walk.moved[entry.party] or entry.served, walk.clock)
end

local function add(walk, entry)
  local page = walk.page
  local rating = page.ageing and rating_of(page, entry.order) or entry.order
  if not page.fair then
    entry[1] = rating
  elseif entry.source == FREE_LINE then
    entry[1] = BEFORE_ALL .. rating
  else
    entry.turn = turn_of(walk, entry)
    entry[1] = sortable(entry.turn) .. rating
  end
  push(walk.heap, entry)
end

-- A job without a lane, or of weight 0.
local function next_in_line(walk, source, line)
  local order = line()
  if order then
    add(walk, {order = order, source = source, line = line, party = '', served = walk.nobodys})
  end
end

local function head_entry(member, line)
  local entry = {order = sub(member, 1, 22), source = HEADS, line = line, name = sub(member, 23)}
  entry.key, entry.task = key_and_task(entry.name)
  return entry
end

local function fair_head_entry(walk, member, line)
  local entry = head_entry(sub(member, 31), line)
  entry.party, entry.served = party_of(entry.key), unsorted(sub(member, 1, 8))
  if walk.moved[entry.party] then
    entry.source = HEAD -- its place among the heads is no longer its own
  end
  return entry
end

local function next_head(walk, line)
  local fair, source = walk.page.fair, nil
  repeat
    local member = line()
    if not member then
      return
    end
    local entry = fair and fair_head_entry(walk, member, line) or head_entry(member, line)
    source = entry.source
    add(walk, entry)
  until source == HEADS
end

local function next_in_lane(walk, before)
  local order = behind(walk, before.name, before.order)
  if order then
    add(walk, {
      order = order, source = HEAD, name = before.name, key = before.key, task = before.task,
      party = before.party, served = before.served,
    })
  end
end

-- -- walking --------------------------------------------------------------------------------

local function new_walk(page, door, size)
  local walk = {
    page = page, door = door, size = size, heap = {}, aside = {}, full = {}, is_full = {},
    followers = {}, upcoming = {}, bodies = {},
  }
  if page.weighs then
    function walk.note(found, skip)
      note_numbers(walk, found, skip)
    end
    function walk.note_heads(found, skip)
      note_heads(walk, found, skip)
    end
  end
  if page.fair then
    walk.clock, walk.moved, walk.nobodys = page.clock, {}, served(page, '')
  end
  return walk
end

-- All lines of a queue, before the first has been asked; members are read `size` at a time.
function set_out(page, door, size)
  if page.dozes then
    wake_lanes(page)
  end
  if page.fair then
    level_turns(page)
  end
  local walk = new_walk(page, door, size)
  for _, line in ipairs(lines_in(page, T .. ':r:' .. page.queue, '', size, walk.note)) do
    next_in_line(walk, READY, line)
  end
  if page.laned == 0 then
    return walk
  end
  for _, line in ipairs(lines_in(page, T .. ':f:' .. page.queue, '', size)) do
    next_in_line(walk, FREE_LINE, line)
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

-- The foremost one's party has had a turn meanwhile, with a job of another rank or task.
local function put_back(walk)
  local entry = pop(walk.heap)
  if entry.source == HEADS then
    entry.source = HEAD
    next_head(walk, entry.line)
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

-- Lets those come to the fore who were behind.
local function go_on(walk, entry, barred)
  local source = entry.source
  if source == READY or source == FREE_LINE then
    next_in_line(walk, source, entry.line)
    return
  end
  if not barred then
    next_in_lane(walk, entry)
  end
  if source == HEADS and barred ~= TASK_FULL then -- where it is, all heads are of that task
    next_head(walk, entry.line)
  end
end

local function pass_over(walk, barred)
  local entry = pop(walk.heap)
  if barred == KEY_FULL and not walk.is_full[entry.name] then
    walk.is_full[entry.name] = true
    walk.full[#walk.full + 1] = entry
  elseif barred == SHARE_FULL then
    walk.aside[#walk.aside + 1] = entry
  end
  go_on(walk, entry, barred)
end

-- The next entry whose key and task have room.
function foremost(walk)
  if not walk.stopped and is_full(walk.door) then
    walk.heap, walk.stopped = only_free(walk.heap), true
  end
  while true do
    local entry = walk.heap[1]
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
        return entry
      end
      pass_over(walk, barred)
    end
  end
end

local function take_turn(walk, entry)
  local turns = entry.key and walk.page.rules.turns
  local turns_each = turns and turns[entry.key] or WHOLE_WEIGHT
  walk.clock = entry.turn
  walk.moved[entry.party] = entry.turn + math.floor(entry.weight * WHOLE_WEIGHT / turns_each)
end

-- May the foremost one start? It leaves the line, whatever the answer.
function let_in_foremost(walk)
  local entry = pop(walk.heap)
  if not lets_in(walk.door, entry) then
    return nil -- nobody comes behind it but those who wait for no room
  end
  if entry.turn then
    take_turn(walk, entry)
  end
  go_on(walk, entry)
  return entry
end

-- Those that were beyond their share come once more, with their lanes behind them.
function set_out_again(walk)
  walk.heap, walk.lent, walk.stopped = {}, true, false
  for _, entry in ipairs(walk.aside) do
    entry.source = HEAD
    add(walk, entry)
  end
  walk.aside = {}
end
