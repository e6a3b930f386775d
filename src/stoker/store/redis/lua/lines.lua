-- Lines: the queued jobs of a queue in the order in which they may start.
--
-- A place is a job's rank and the moment at which it is due, eight sortable bytes each; its order
-- is the place, the other way round in a queue where time comes first, and its number. All lines
-- are sorted sets in which only the order of the members counts:
--
--   T:r:<queue>  order          jobs without a lane
--   T:f:<queue>  order          jobs of weight 0, which neither count nor wait
--   T:k:<queue>  lane order     jobs of tasks with a limit, and jobs with a key if anything is said
--                               about keys, lane by lane; some stand among the heads (heads.lua)
--
-- The name of a lane is a key; or, for jobs of a task with a limit, a byte that begins no text (128,
-- or 129 if they have no key), the length of the task's name in three bytes, it, and the key. A lane
-- is its name with its length before it. A bucket is the rank, or nothing where time comes
-- first: what is not due in one bucket must not hide what is due in the next.

local FREE = 0 -- the lane of jobs of weight 0

function turned(order)
  return sub(order, 9, 16) .. sub(order, 1, 8) .. sub(order, 17)
end

function order_of(page, place, number)
  local order = place .. number
  return page.time_first and turned(order) or order
end

-- What stands in a line for somebody in a lane, or before all of its bucket.
function in_lane(name, order)
  local length = lengths[#name]
  if not length then
    length = pack('>I4', #name)
    lengths[#name] = length
  end
  return length .. name .. order
end

-- The lane of a job of weight 0 (FREE), or with a key or none, and of a task, if that has a limit.
function lane_for(page, lane, task)
  if lane == FREE then
    return FREE
  end
  local key = page.by_key and lane or nil
  if not task then
    return key
  end
  return (key and '\128' or '\129') .. pack('>I3', #task) .. task .. (key or '')
end

-- The key and the limited task of a lane's jobs, as far as they have them.
function key_and_task(name)
  local kind = byte(name) or 0
  if kind < 128 or kind > 129 then
    return name, nil
  end
  local last = 4 + unpack_struct('>I3', name, 2)
  return kind == 128 and sub(name, last + 1) or nil, sub(name, 5, last)
end

-- Calls act(name) for each lane that a key can have; nil: for jobs without a key.
function each_lane(page, key, act)
  if key then
    act(key)
  end
  for _, task in ipairs(page.tasks) do
    act(lane_for(page, key, task))
  end
end

-- The tasks of these jobs, false for those without a limit; nil if no task of the queue has one.
function limited_tasks(page, numbers)
  if #page.tasks == 0 then
    return nil
  end
  local bodies, tasks = fetch('j', numbers), {}
  for i = 1, #numbers do
    local task = head_of(bodies[i])[2]
    tasks[i] = page.limits_task[task] and task or false
  end
  return tasks
end

function bucket_of(page, order)
  return page.time_first and '' or sub(order, 1, 8)
end

-- Somebody steps into a lane or out of it. Of those who do so in a bucket the foremost is noted.
function lane_moved(page, name, order)
  local buckets, bucket = page.lanes[name] or {}, bucket_of(page, order)
  local noted, key = buckets[bucket], key_and_task(name)
  if not noted or order < noted then
    buckets[bucket] = order
  end
  page.lanes[name] = buckets
  if key and has_shut_lanes(page) then
    page.opened[key] = true
  end
end

function party_of(key)
  return key and '=' .. key or ''
end

-- What parties have got to is written down. Nobody ever falls back.
function write_turns(page, reached)
  for at = 1, #reached, MOST_ARGUMENTS do
    local last = math.min(at + MOST_ARGUMENTS - 1, #reached)
    call('ZADD', T .. ':p:' .. page.queue, 'GT', spread(reached, at, last))
  end
end

-- Where each key has but one row, only the foremost of that may tell how far the key has been served.
-- From now on it has to be known without. head_size: of the heads as they are.
function write_turns_of_heads(page, head_size)
  local reached, n, known = {}, 0, {}
  for _, member in ipairs(call('ZRANGE', page.head_line, 0, -1)) do
    local number, key = unsorted(sub(member, 1, 8)), sub(member, head_size + 2)
    if not known[key] and number > page.clock then
      reached[n + 1], reached[n + 2], n = whole(number), party_of(key), n + 2
    end
    known[key] = true
  end
  write_turns(page, reached)
end

-- May a lane have more than one bucket?
function has_buckets(page)
  return page.rank == MIXED and not page.time_first
end

-- Where all lanes have but one bucket nobody needs to look for others. When another rank comes, keys
-- may get a second head, or the only one that had any may have left in this very step.
local function note_rank(page, rank)
  local is_other = page.rank ~= rank
  if is_other and page.fair and page.rank and page.rank ~= MIXED then
    write_turns_of_heads(page, page.head_size)
  end
  page.rank = is_other and page.laned > 1 and MIXED or rank
end

function join(page, number, place, lane)
  local order = order_of(page, place, number)
  if not lane then
    local joins, n = page.joins, #page.joins
    joins[n + 1], joins[n + 2] = '0', order
    return
  end
  page.laned = page.laned + 1
  if lane == FREE then
    call('ZADD', page.free_line, 0, order)
  else
    local joins, n, member = page.lane_joins, #page.lane_joins, in_lane(lane, order)
    joins[n + 1], joins[n + 2], page.gone[member] = '0', member, nil
    note_rank(page, sub(place, 1, 8))
    lane_moved(page, lane, order)
  end
end

function step_out(page, order, lane)
  if not lane then
    call('ZREM', page.line, order)
    return
  end
  page.laned = page.laned - 1
  if lane == FREE then
    call('ZREM', page.free_line, order)
  else
    local member = in_lane(lane, order)
    call('ZREM', page.lane_line, member)
    page.gone[member] = true
    lane_moved(page, lane, order)
  end
end

-- Jobs that joined are put in line together: a hundred at once cost half of one by one.
function close_ranks()
  for _, page in pairs(pages) do
    if #page.joins > 0 then
      call_many('ZADD', page.line, page.joins, 2)
      page.joins = {}
    end
    if #page.lane_joins > 0 then
      call_many('ZADD', page.lane_line, page.lane_joins, 2)
      page.lane_joins = {}
    end
  end
end
