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
-- entry of a lane also has its name, key and task or false, the field of its head and that head as it
-- was, orders of those known to follow, the place at which the next of them begins, and whether
-- anybody has left. There are many, so they are lists.

local READY, FREE_LINE, HEADS, HEAD = 1, 2, 3, 4 -- one among the heads, and one that has left them
local ORDER, WEIGHT, BODY, SOURCE, LINE, TURN, SERVED = 2, 3, 4, 5, 6, 7, 8
local NAME, WHOSE, TASK, FIELD, FORMER, FRONT, AT, LEFT = 9, 10, 11, 12, 13, 14, 15, 16
local BEFORE_ALL = rep('\0', 8)

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

-- Who comes next in an entry's lane and bucket, due or not; false: nobody.
local function next_in_lane(page, entry)
  if entry[AT] > #entry[FRONT] then
    local name = entry[NAME]
    entry[FRONT] = orders_behind(page, name, in_lane(name, entry[ORDER]), entry[FIELD])
    entry[AT] = 1
  end
  local at = entry[AT]
  entry[AT] = at + 22
  return at <= #entry[FRONT] and sub(entry[FRONT], at, at + 21)
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
    false, order, false, false, HEADS, false, false,
    page.fair and unsorted(sub(member, skip + 1, skip + 8)),
    name, key or false, task or false, in_lane(name, bucket_of(page, order)),
    page.fair and sub(member, skip + 1, last) or order, '', 1, false,
  }
end

-- The entries of these heads, with what is kept of their lanes and their keys.
local function note_heads(walk, found, skip)
  local page, keys, fields, numbers, entries = walk.page, {}, {}, {}, {}
  for i = 1, #found do
    local entry = head_entry(page, found[i], skip)
    entries[i], keys[i], fields[i] = entry, entry[WHOSE], entry[FIELD]
    numbers[i] = sub(entry[ORDER], 17)
  end
  if page.counts_keys then
    look_up_use(page, 'u', keys)
  end
  local kept, read = kept_heads(page, fields), is_sorted(numbers) and fetch or fetch_scattered
  local bodies = read('j', numbers)
  for i = 1, #found do
    local entry, body = entries[i], bodies[i]
    entry[BODY], entry[FRONT] = body, kept[i]
    entry[AT] = behind_head(page, kept[i], entry[ORDER])
    entry[WEIGHT] = byte(body) == 0 and WHOLE_WEIGHT
  end
  return entries
end

-- Reads an entry's body with all others noted, and with those known to follow in its lane.
local function read_bodies(walk, entry, number)
  local numbers = walk.upcoming
  numbers[#numbers + 1], walk.upcoming = number, {}
  for at = entry[AT] or 1, entry[SOURCE] == HEAD and #entry[FRONT] or 0, 22 do
    numbers[#numbers + 1] = sub(entry[FRONT], at + 16, at + 21)
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
  return {false, false, false, false, source, line, false, walk.nobodys, false, false, false}
end

local function next_head(walk, line)
  repeat
    local entry = line()
    if not entry then
      return
    end
    entry[LINE] = line
    if walk.moved and walk.moved[entry[WHOSE]] then
      entry[SOURCE] = HEAD -- its place among the heads is no longer its own
    end
    add(walk, entry)
  until entry[SOURCE] == HEADS
end

local function go_on_in_lane(walk, entry)
  if not entry[LEFT] then
    entry[LEFT] = true
    walk.left[#walk.left + 1] = entry
  end
  entry[ORDER], entry[SOURCE] = next_in_lane(walk.page, entry), HEAD
  entry[WEIGHT], entry[BODY] = false, false
  if entry[ORDER] and due_of(walk.page, entry[ORDER]) <= NOW8 then
    add(walk, entry)
  end
end

-- -- jobs that are taken ----------------------------------------------------------------------

-- taken: how many, and of each its number, its queue's page, its limited task or false, and its body
-- as far as it was read; and who leaves which line.
function note_taken(taken, page, order, line, member, task, body)
  local n, leaving = taken.count + 1, taken.leaving[line]
  if not leaving then
    leaving, page.changed = {}, true
    taken.leaving[line] = leaving
  end
  leaving[#leaving + 1] = member
  taken.numbers[n], taken.pages[n], taken.tasks[n], taken.bodies[n] = sub(order, 17), page, task, body
  taken.count = n
end

local function note_started(walk, entry, taken)
  local page, order, line, member = walk.page, entry[ORDER], walk.page.line, entry[ORDER]
  if entry[SOURCE] ~= READY then
    page.laned = page.laned - 1
    line = page.free_line
  end
  if entry[NAME] then
    line, member = page.lane_line, in_lane(entry[NAME], order)
  end
  note_taken(taken, page, order, line, member, entry[TASK], entry[BODY])
  walk.need.wanted = walk.need.wanted - 1
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
  local turns = entry[WHOSE] and walk.page.rules.turns
  local turns_each = turns and turns[entry[WHOSE]] or WHOLE_WEIGHT
  walk.clock = entry[TURN]
  walk.moved[entry[WHOSE]] = entry[TURN] + math.floor(entry[WEIGHT] * WHOLE_WEIGHT / turns_each)
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

-- Those are foremost now who came next.
local function move_up(walk)
  local page, changes = walk.page, no_changes()
  for _, entry in ipairs(walk.left) do
    local order, name, kept = entry[ORDER], entry[NAME], false
    local head = order and head_for(page, name, order)
    if head then
      kept = head == order and sub(entry[FRONT], entry[AT] - 22) or head .. sub(entry[FRONT], entry[AT])
    end
    note_change(page, changes, name, entry[FIELD], entry[FORMER], head, kept)
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
    settle_wholly(page, lanes_of(page, moved))
  end
end

-- Whoever found no room is not looked at until there may be some.
function shut_lanes(walk)
  for _, entry in ipairs(walk.full) do
    local name = entry[NAME]
    shut_lane(walk.page, name, entry[ORDER], walk.door.opens_at[name])
  end
end
