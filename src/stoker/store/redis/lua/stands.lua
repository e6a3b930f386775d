-- Where jobs stand: they leave a place in the books, the lines and the indexes, and enter another.
--
-- Where a job stands: queue, state, units it holds, their key (or one for each of those that hold
-- them, or false), place, lane (or one for each, or false), marks. A mark is an index (part of a
-- key), what stands before the number there, and a score as text.

QUEUE, STATE, KEY = 1, 2, 4
local UNITS, PLACE, LANE, MARKS = 3, 5, 6, 7

-- What stands in an index for these numbers.
local function members_of(before, numbers)
  if before == '' then
    return numbers
  end
  local members = {}
  for i = 1, #numbers do
    members[i] = before .. numbers[i]
  end
  return members
end

local function unmark(marks, numbers)
  for _, mark in ipairs(marks) do
    call_many('ZREM', T .. ':' .. mark[1], members_of(mark[2], numbers), 1)
  end
end

local function mark(marks, numbers)
  for _, mark in ipairs(marks) do
    local index, before, score, scored = mark[1], mark[2], mark[3], {}
    for i = 1, #numbers do
      scored[2 * i - 1], scored[2 * i] = score, before .. numbers[i]
    end
    call_many('ZADD', T .. ':' .. index, scored, 2)
    if sub(index, 1, 2) == 's:' then
      call('SADD', T .. ':holders', sub(index, 3))
    end
  end
end

-- Jobs hold so many units each, or give them up; their tasks count them where they have limits.
local function hold(page, key, units, numbers, tasks)
  burden(page, units * #numbers)
  if type(key) == 'table' then
    burden_keys(page, key, units)
  elseif type(key) == 'string' then
    burden_key(page, key, units * #numbers)
  end
  for i = 1, tasks and #numbers or 0 do
    if tasks[i] then
      use(page, 'v', tasks[i], units)
    end
  end
end

function leave(numbers, stand)
  local page = page_of(stand[QUEUE])
  local tasks = (stand[UNITS] > 0 or stand[PLACE]) and limited_tasks(page, numbers)
  count(page, stand[STATE], -#numbers)
  if stand[UNITS] > 0 then
    hold(page, stand[KEY], -stand[UNITS], numbers, tasks)
  end
  if stand[PLACE] then
    for i = 1, #numbers do
      local lane = lane_for(page, stand[LANE], tasks and tasks[i])
      step_out(page, order_of(page, stand[PLACE], numbers[i]), lane)
    end
  end
  unmark(stand[MARKS], numbers)
end

function enter(numbers, stand, places)
  local page = page_of(stand[QUEUE])
  local tasks = (stand[UNITS] > 0 or stand[PLACE]) and limited_tasks(page, numbers)
  count(page, stand[STATE], #numbers)
  if stand[UNITS] > 0 then
    hold(page, stand[KEY], stand[UNITS], numbers, tasks)
  end
  if stand[PLACE] then
    local each_has_one = type(stand[LANE]) == 'table'
    for i = 1, #numbers do
      local place = places and sub(places, 16 * i - 15, 16 * i) or stand[PLACE]
      local lane = each_has_one and stand[LANE][i] or not each_has_one and stand[LANE]
      join(page, numbers[i], place, lane_for(page, lane, tasks and tasks[i]))
    end
  end
  mark(stand[MARKS], numbers)
end
