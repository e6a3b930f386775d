-- Lines: the queued jobs of a queue in the order in which they may start.
--
-- A place is a job's rank and the moment at which it is due, eight sortable bytes each; its order
-- is the place, the other way round in a queue where time comes first, and its number. All lines
-- are sorted sets in which only the order of the members counts:
--
--   T:r:<queue>  order          jobs without a lane
--   T:f:<queue>  order          jobs of weight 0, which neither count nor wait
--   T:k:<queue>  lane order     jobs with a key, lane by lane
--   T:h:<queue>  order key      the foremost job of each lane and bucket, unless the lane is shut
--   T:o:<queue>  lane bucket -> order    a hash: what the line of heads says of a lane
--   T:z:<queue>  keys           a set: lanes that are shut, since their key has no room
--
-- A lane is a key with its length before it. A bucket is the rank, or nothing where time comes
-- first: what is not due in one bucket must not hide what is due in the next.

local FREE = 0 -- the lane of jobs of weight 0

local function turned(order)
  return sub(order, 9, 16) .. sub(order, 1, 8) .. sub(order, 17)
end

local function order_of(page, place, number)
  local order = place .. number
  return page.time_first and turned(order) or order
end

local function lane_of(key)
  return pack('>I4', #key) .. key
end

local function bucket_of(page, order)
  return page.time_first and '' or sub(order, 1, 8)
end

local function lane_moved(page, key, order)
  local buckets = page.lanes[key] or {}
  buckets[bucket_of(page, order)] = true
  page.lanes[key] = buckets
  page.opened[key] = true
end

local function join(page, number, place, lane)
  local order = order_of(page, place, number)
  if not lane then
    local joins, n = page.joins, #page.joins
    joins[n + 1], joins[n + 2] = '0', order
    return
  end
  page.laned = page.laned + 1
  if lane == FREE then
    call('ZADD', T .. ':f:' .. page.queue, 0, order)
  else
    call('ZADD', T .. ':k:' .. page.queue, 0, lane_of(lane) .. order)
    lane_moved(page, lane, order)
  end
end

local function step_out(page, order, lane)
  if not lane then
    call('ZREM', T .. ':r:' .. page.queue, order)
    return
  end
  page.laned = page.laned - 1
  if lane == FREE then
    call('ZREM', T .. ':f:' .. page.queue, order)
  else
    call('ZREM', T .. ':k:' .. page.queue, lane_of(lane) .. order)
    lane_moved(page, lane, order)
  end
end

-- Jobs that joined are put in line together: a hundred at once cost half of one by one.
local function close_ranks()
  for _, page in pairs(pages) do
    if #page.joins > 0 then
      call_many('ZADD', T .. ':r:' .. page.queue, page.joins, 2)
      page.joins = {}
    end
  end
end

-- -- heads ----------------------------------------------------------------------------------

local function settle_head(page, key, bucket)
  local field = lane_of(key) .. bucket
  local first = call('ZRANGEBYLEX', T .. ':k:' .. page.queue, '[' .. field, '[' .. field .. HIGH,
    'LIMIT', 0, 1)[1]
  local head = first and sub(first, #key + 5) or false
  local before = call('HGET', T .. ':o:' .. page.queue, field)
  if head == before then
    return
  end
  if before then
    call('ZREM', T .. ':h:' .. page.queue, before .. key)
  end
  if head then
    call('ZADD', T .. ':h:' .. page.queue, 0, head .. key)
    call('HSET', T .. ':o:' .. page.queue, field, head)
  else
    call('HDEL', T .. ':o:' .. page.queue, field)
  end
end

-- Calls act(bucket) for each bucket of a lane, from the given one on.
local function each_bucket(page, key, first, act)
  local lane, from = lane_of(key), '[' .. lane_of(key) .. first
  while true do
    local found = call('ZRANGEBYLEX', T .. ':k:' .. page.queue, from, '[' .. lane .. HIGH,
      'LIMIT', 0, 1)[1]
    if not found then
      return
    end
    local bucket = bucket_of(page, sub(found, #lane + 1))
    act(bucket)
    from = '(' .. lane .. bucket .. HIGH
  end
end

local function open_lane(page, key)
  if call('SREM', T .. ':z:' .. page.queue, key) == 1 then
    each_bucket(page, key, '', function(bucket)
      settle_head(page, key, bucket)
    end)
  end
end

-- Those behind a job that did not fit must not overtake it; those before it may still come.
local function shut_lane(page, key, bucket)
  call('SADD', T .. ':z:' .. page.queue, key)
  each_bucket(page, key, bucket, function(each)
    local field = lane_of(key) .. each
    local head = call('HGET', T .. ':o:' .. page.queue, field)
    if head then
      call('ZREM', T .. ':h:' .. page.queue, head .. key)
      call('HDEL', T .. ':o:' .. page.queue, field)
    end
  end)
end

-- Looks up the heads of lanes that moved, and opens what an event may have made room for.
local function settle_lanes()
  for _, page in pairs(pages) do
    for key, buckets in pairs(page.lanes) do
      for bucket in pairs(buckets) do
        settle_head(page, key, bucket)
      end
    end
    for key in pairs(page.opened) do
      open_lane(page, key)
    end
    page.lanes, page.opened = {}, {}
  end
end

-- -- settings -------------------------------------------------------------------------------

local function turn_line(name, prefix_length)
  local members = call('ZRANGE', name, 0, -1)
  local again = {}
  for i = 1, #members do
    local prefix = prefix_length(members[i])
    again[2 * i - 1] = '0'
    again[2 * i] = sub(members[i], 1, prefix) .. turned(sub(members[i], prefix + 1))
  end
  call('DEL', name)
  call_many('ZADD', name, again, 2)
end

-- The queue's order changes: everybody in line takes another place.
local function turn(page)
  local queue = page.queue
  local function none()
    return 0
  end
  turn_line(T .. ':r:' .. queue, none)
  turn_line(T .. ':f:' .. queue, none)
  turn_line(T .. ':k:' .. queue, function(member)
    return 4 + unpack_struct('>I4', member)
  end)
  call('DEL', T .. ':h:' .. queue, T .. ':o:' .. queue, T .. ':z:' .. queue)
  for _, member in ipairs(call('ZRANGE', T .. ':k:' .. queue, 0, -1)) do
    local length = unpack_struct('>I4', member)
    lane_moved(page, sub(member, 5, 4 + length), sub(member, 5 + length))
  end
end

-- settings: name, JSON, order, paused, capacity, capacity of a key, exceptions by key, away
local function configure(settings)
  local page = page_of(settings[1])
  settle_lanes()
  local name = T .. ':q:' .. page.queue
  call('DEL', name)
  page.written, page.changed = {}, true
  call('HSET', name, 's', settings[2], 'o', settings[3], 'p', settings[4])
  for i, field in ipairs({'c', 'k', 'x', 'a'}) do
    if settings[4 + i] then
      call('HSET', name, field, settings[4 + i])
    end
  end
  page.away = settings[8] == 1
  local was_time_first = page.time_first
  page.time_first, page.paused = settings[3] == 1, settings[4] == 1
  page.capacity, page.key_capacity = settings[5], settings[6]
  page.keys = settings[7] and decode(settings[7]) or {}
  page.limited = page.capacity or page.key_capacity or next(page.keys) ~= nil
  if was_time_first ~= page.time_first then
    turn(page)
  else
    for _, key in ipairs(call('SMEMBERS', T .. ':z:' .. page.queue)) do
      page.opened[key] = true
    end
  end
end
