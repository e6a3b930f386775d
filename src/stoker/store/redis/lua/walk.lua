-- Walking the lines of one queue: which job is the next that may be asked.
--
-- A queue is walked in its order up to what is due; jobs that are not due are never looked at.
-- Jobs with a key stand in lanes, of which only the heads are looked at, so that a key without room
-- costs nothing, however many jobs it has; and so do those of tasks with a limit. In a queue whose
-- jobs age each rank is a line of its own, and the ranks are merged.
--
-- An entry stands for the foremost job from its source, and then for the next one: what it is sorted
-- by, the job's order, its weight and body once they are asked for, the source, and the line behind
-- it unless that is its lane; in a fair queue the turn, and how far its key had been served. The
-- entry of a head also has its lane's name, key and task or false; what it is in the line of heads,
-- as long as it is there; and whether it is the last of its row. Once that has been taken the entry
-- goes on with those behind: the field of its lane and bucket, what the last one was in the lane's
-- line, the orders of those who come next, and the place of the next of them. There are many, so they
-- are lists.

local READY, FREE_LINE, HEADS, HEAD = 1, 2, 3, 4 -- one among the heads, and one that has left them
local ORDER, WEIGHT, BODY, SOURCE, LINE, TURN, SERVED = 2, 3, 4, 5, 6, 7, 8
local NAME, WHOSE, TASK, MEMBER, IS_LAST, FIELD, FORMER, NEXT, AT = 9, 10, 11, 12, 13, 14, 15, 16, 17
local BEFORE_ALL = rep('\0', 8)
local FEW = 4

-- -- lines ----------------------------------------------------------------------------------

local function lines_of_heads(walk, task)
  local page = walk.page
  local name, prefix = line_of_heads(page, task)
  if page.fair then
    local clock = sortable(page.clock)
    local lines = {members_between(name, prefix, clock, '', walk.need, walk.note_heads)}
    if page.clock > 0 then
      local from = sortable(0)
      lines[2] = members_between(name, prefix, from, from, walk.need, walk.note_heads)
    end
    return lines
  end
  return lines_in(page, name, prefix, walk.need, walk.note_heads)
end

-- Who comes next in an entry's lane and bucket behind the last of a row, due or not; false: nobody.
local function next_in_lane(page, entry)
  local behind, at = entry[NEXT], entry[AT] + 1
  if at > #behind then
    local member = in_lane(entry[NAME], entry[ORDER])
    behind = orders_behind(page, entry[NAME], member, entry[FIELD],
      math.max(row_length(page), FEW))
    entry[NEXT], at = behind, 1
  end
  entry[AT] = at
  return behind[at] or false
end

-- -- what is known of those to come ---------------------------------------------------------

-- Bodies are read many at a time, when the first weight is asked for.
local function note_numbers(walk, found)
  local upcoming, n = walk.upcoming, #walk.upcoming
  for i = 1, #found do
    upcoming[n + i] = sub(found[i], 17)
  end
end

-- The entry of a head, by its member in a line of heads: the head begins after the given place.
local function head_entry(page, member, skip)
  local last = skip + page.head_size
  local name = sub(member, last + 2)
  local key, task = key_and_task(name)
  return {
    false, sub(member, last - 21, last), false, false, HEADS, false, false,
    page.fair and unsorted(sub(member, skip + 1, skip + 8)),
    name, key or false, task or false, member, byte(member, last + 1) == LAST_MARK,
    false, false, NONE, 0,
  }
end

-- The entries of these heads, with what their jobs weigh and their keys have in use.
local function note_heads(walk, found, skip)
  local page, keys, numbers, entries = walk.page, {}, {}, {}
  for i = 1, #found do
    local entry = head_entry(page, found[i], skip)
    entries[i], keys[i], numbers[i] = entry, entry[WHOSE], sub(entry[ORDER], 17)
  end
  if page.counts_keys then
    look_up_use(page, 'u', keys)
  end
  local read = is_sorted(numbers) and fetch or fetch_scattered
  for i, body in ipairs(read('j', numbers)) do
    entries[i][BODY], entries[i][WEIGHT] = body, byte(body) == 0 and WHOLE_WEIGHT
  end
  return entries
end

-- Reads an entry's body with all others noted, and with those that come next in its lane.
local function read_bodies(walk, entry, number)
  local numbers = walk.upcoming
  numbers[#numbers + 1], walk.upcoming = number, {}
  for at = (entry[AT] or 0) + 1, #(entry[NEXT] or NONE) do
    numbers[#numbers + 1] = sub(entry[NEXT][at], 17)
  end
  if not is_sorted(numbers) then
    table.sort(numbers)
  end
  for i, body in ipairs(fetch('j', numbers)) do
    walk.bodies[numbers[i]] = body
  end
end

local function body_of(walk, entry)
  local number = sub(entry[ORDER], 17)
  if not walk.bodies[number] then
    read_bodies(walk, entry, number)
  end
  return walk.bodies[number]
end

-- The weight of an entry's job, as far as somebody has to know it.
local function weigh(walk, entry)
  if entry[SOURCE] == FREE_LINE then
    entry[WEIGHT] = 0
  elseif not walk.page.weighs then
    entry[WEIGHT] = WHOLE_WEIGHT
  else
    local body = entry[BODY] or body_of(walk, entry)
    entry[BODY] = body
    entry[WEIGHT] = weight_of(body)
  end
end

-- -- entries --------------------------------------------------------------------------------

-- Whose turn it is is reckoned with what was taken in this claim.
local function turn_of(walk, entry)
  local turn, clock = walk.moved[entry[WHOSE]] or entry[SERVED], walk.clock
  return turn > clock and turn or clock
end

-- The lines have their own heap, since all but one of those that left them mostly wait in vain.
local function add(walk, entry)
  local page, order = walk.page, entry[ORDER]
  local rating = page.ageing and rating_of(page, order) or order
  if not page.fair then
    entry[1] = rating
  elseif entry[SOURCE] == FREE_LINE then
    entry[1] = BEFORE_ALL .. rating
  else
    entry[TURN] = turn_of(walk, entry)
    entry[1] = sortable(entry[TURN]) .. rating
  end
  push(entry[SOURCE] == HEAD and walk.lanes or walk.fronts, entry)
end

-- The next job without a lane, or of weight 0.
local function go_on_in_line(walk, entry)
  entry[ORDER] = entry[LINE]()
  if entry[ORDER] then
    entry[WEIGHT], entry[BODY] = false, false
    add(walk, entry)
  end
end

local function line_entry(walk, source, line)
  return {false, false, false, false, source, line, false, walk.nobodys, false, false, false, false}
end

local function next_head(walk, line)
  repeat
    local entry = line()
    if not entry then
      return
    end
    entry[LINE] = line
    if walk.moved and (walk.moved[entry[WHOSE]] or entry[SERVED]) ~= entry[SERVED] then
      entry[SOURCE] = HEAD -- its place among the heads is no longer its own
    end
    add(walk, entry)
  until entry[SOURCE] == HEADS
end

-- The number of the next in the row of a head.
local function number_behind(page, entry)
  return entry[SERVED] + turn_length(page, entry[WHOSE], WHOLE_WEIGHT)
end

-- A light job was taken: the next of its row comes sooner than where it stands among the heads.
local function call_next(walk, entry)
  local page, name, order = walk.page, entry[NAME], entry[ORDER]
  local row = call('HGET', T .. ':o:' .. page.queue, in_lane(name, bucket_of(page, order)))
  local prefix, members = members_of(page, name, row)
  for i = 1, #members - 1 do
    if string.find(members[i], order, #prefix + page.head_size - 21, true) then
      local follower = head_entry(page, members[i + 1], #prefix)
      follower[SOURCE], walk.called[members[i + 1]] = HEAD, follower
      add(walk, follower)
      return
    end
  end
end

-- A job of a lane was taken: those behind follow if it was the last of its row, or followed itself.
local function go_on_in_lane(walk, entry)
  local page = walk.page
  if entry[IS_LAST] then
    entry[FIELD] = in_lane(entry[NAME], bucket_of(page, entry[ORDER]))
    entry[FORMER], entry[IS_LAST] = in_lane(entry[NAME], entry[ORDER]), false
    walk.left[#walk.left + 1] = entry
  elseif not entry[FIELD] then
    if walk.moved and walk.moved[entry[WHOSE]] < number_behind(page, entry) then
      call_next(walk, entry)
    end
    return
  end
  entry[ORDER], entry[SOURCE] = next_in_lane(page, entry), HEAD
  entry[WEIGHT], entry[BODY] = false, false
  if entry[ORDER] and due_of(page, entry[ORDER]) <= NOW8 then
    add(walk, entry)
  end
end

-- -- jobs that are taken ----------------------------------------------------------------------

-- taken: how many, and of each its number, its queue's page, its limited task or false, and its body
-- as far as it was read; and who leaves which line.
function note_taken(taken, page, order, task, body)
  local n = taken.count + 1
  taken.numbers[n], taken.pages[n], taken.tasks[n], taken.bodies[n] = sub(order, 17), page, task, body
  taken.count, page.changed = n, true
end

function note_leaving(taken, line, member)
  local leaving = taken.leaving[line]
  if not leaving then
    leaving = {}
    taken.leaving[line] = leaving
  end
  leaving[#leaving + 1] = member
end

local function note_started(walk, entry, taken)
  local page, source, order = walk.page, entry[SOURCE], entry[ORDER]
  note_taken(taken, page, order, entry[TASK], entry[BODY])
  walk.need.wanted = walk.need.wanted - 1
  if source == READY then
    note_leaving(taken, page.line, order)
    return
  end
  page.laned = page.laned - 1
  if source == FREE_LINE then
    note_leaving(taken, page.free_line, order)
  elseif entry[MEMBER] then
    note_leaving(taken, line_of_heads(page, entry[TASK]), entry[MEMBER])
    entry[MEMBER] = false
  end
end

-- -- walking --------------------------------------------------------------------------------

local function new_walk(page, door, need)
  local walk = {
    page = page, door = door, need = need, fronts = {}, lanes = {}, aside = {}, full = {},
    is_full = {}, left = {}, crooked = {}, called = {}, upcoming = {}, bodies = {},
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
  local line = entry[SOURCE] == HEADS and entry[LINE]
  if line then
    entry[SOURCE] = HEAD
    next_head(walk, line)
  end
  add(walk, entry)
end

-- The foremost one was called before its place among the heads was reached.
local function pass_by(walk)
  local entry = pop(walk.first)
  if entry[SOURCE] == HEADS then
    next_head(walk, entry[LINE])
  end
end

-- Who waits for no room goes on, whatever is full.
local function only_free(heap)
  local free = {}
  for _, entry in ipairs(heap) do
    if entry[SOURCE] == FREE_LINE then
      push(free, entry)
    end
  end
  return free
end

-- Lets those come to the fore who were behind, as far as somebody is wanted.
local function go_on(walk, entry, barred)
  local source, line, wanted = entry[SOURCE], entry[LINE], walk.need.wanted > 0
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
  if barred == KEY_FULL and not walk.is_full[entry[NAME]] then
    walk.is_full[entry[NAME]] = true
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
    elseif (walk.called[entry[MEMBER]] or entry) ~= entry then
      pass_by(walk)
    elseif entry[TURN] and turn_of(walk, entry) ~= entry[TURN] then
      put_back(walk)
    else
      if not entry[WEIGHT] then
        weigh(walk, entry)
      end
      local barred = bars(walk.door, entry[NAME], entry[WHOSE], entry[TASK], entry[WEIGHT], walk.lent)
      if not barred then
        return entry[ORDER]
      end
      pass_over(walk, barred)
    end
  end
end

local function take_turn(walk, entry)
  local page, key, turn = walk.page, entry[WHOSE], entry[TURN]
  page.uneven = page.uneven or entry[WEIGHT] ~= WHOLE_WEIGHT
  walk.clock, walk.moved[key] = turn, turn + turn_length(page, key, entry[WEIGHT])
  if entry[MEMBER] and not entry[IS_LAST] and walk.moved[key] ~= number_behind(page, entry) then
    walk.crooked[#walk.crooked + 1] = entry[NAME]
  end
end

-- May the foremost one start? Then it is noted. It leaves the line, whatever the answer.
function let_in_foremost(walk, taken)
  local entry = pop(walk.first)
  if not lets_in(walk.door, entry[WHOSE], entry[TASK], entry[WEIGHT]) then
    return false -- nobody comes behind it but those who wait for no room
  end
  if entry[TURN] then
    take_turn(walk, entry)
  end
  note_started(walk, entry, taken)
  go_on(walk, entry)
  return true
end

-- Those that were beyond their share come once more, with their lanes behind them.
function set_out_again(walk)
  walk.fronts, walk.lanes, walk.lent, walk.stopped = {}, {}, true, false
  for _, entry in ipairs(walk.aside) do
    entry[SOURCE] = HEAD
    add(walk, entry)
  end
  walk.aside = {}
end

-- Of the lanes of which the last of a row was taken those line up who come next.
local function move_up(walk)
  local page, changes = walk.page, no_changes()
  for _, entry in ipairs(walk.left) do
    local name, field, key = entry[NAME], entry[FIELD], entry[WHOSE]
    local last = math.min(#entry[NEXT], entry[AT] + row_length(page) - 1)
    local orders = {spread(entry[NEXT], entry[AT], last)}
    local row = row_of(page, name, orders, page.fair and served(page, key))
    if row then
      line_up(page, changes, name, field, row)
    else
      give_up(page, changes, name, field)
    end
    move_on(page, name, field, entry[FORMER], row or orders[1] and {orders[1]})
  end
  rewrite_heads(page, changes)
end

-- Those who had a turn go back, and their lanes move up.
function leave_lanes(walk)
  local page, moved = walk.page, walk.moved
  if moved then
    remember_turns(page, walk.clock, moved)
  end
  move_up(walk)
  if moved then
    local lanes = lanes_of(page, moved)
    for _, name in ipairs(walk.crooked) do
      lanes[#lanes + 1] = name
    end
    settle_wholly(page, lanes)
  end
end

-- Whoever found no room is not looked at until there may be some.
function shut_lanes(walk)
  for _, entry in ipairs(walk.full) do
    local name = entry[NAME]
    shut_lane(walk.page, name, entry[ORDER], walk.door.opens_at[name])
  end
end
