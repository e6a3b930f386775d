-- Settings: what changes for those in line when a queue is told something else.

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

local function lane_length(member)
  return 4 + unpack_struct('>I4', member)
end

-- The queue's order changes: everybody in line takes another place.
local function turn(page)
  local function none()
    return 0
  end
  turn_line(T .. ':r:' .. page.queue, none)
  turn_line(T .. ':f:' .. page.queue, none)
  turn_line(T .. ':k:' .. page.queue, lane_length)
end

local function orders_in_line(page)
  local orders = call('ZRANGE', T .. ':r:' .. page.queue, 0, -1)
  local laned = call('ZRANGE', T .. ':k:' .. page.queue, 0, -1)
  page.laned = page.laned - #laned
  for _, member in ipairs(laned) do
    orders[#orders + 1] = sub(member, lane_length(member) + 1)
  end
  call('DEL', T .. ':r:' .. page.queue, T .. ':k:' .. page.queue)
  return orders
end

-- Other tasks have limits, or keys have: everybody in line looks for a lane anew.
local function change_lanes(page)
  local orders = orders_in_line(page)
  local ready, laned = {}, {}
  for at = 1, #orders, MOST_ARGUMENTS do
    local numbers = {}
    for i = at, math.min(at + MOST_ARGUMENTS - 1, #orders) do
      numbers[#numbers + 1] = sub(orders[i], 17)
    end
    local bodies = fetch('j', numbers)
    for i = 1, #numbers do
      local head, order = head_of(bodies[i]), orders[at + i - 1]
      local name = lane_for(page, head[9], page.limits_task[head[2]] and head[2])
      local line = name and laned or ready
      line[#line + 1], line[#line + 2] = '0', name and in_lane(name, order) or order
    end
  end
  call_many('ZADD', T .. ':r:' .. page.queue, ready, 2)
  call_many('ZADD', T .. ':k:' .. page.queue, laned, 2)
  page.rank = MIXED
  page.laned = page.laned + #laned / 2
end

-- All heads step back into their lanes' line, and no lane is shut or asleep any more. before: what
-- was said of the queue when they lined up.
local function dissolve_heads(page, before)
  local queue, size, returned = page.queue, before.head_size, {}
  if before.fair then
    write_turns_of_heads(page, size)
  end
  local function step_back(member, skip)
    local order, name = sub(member, skip + size - 21, skip + size), sub(member, skip + size + 2)
    returned[#returned + 1], returned[#returned + 2] = '0', in_lane(name, order)
  end
  for _, member in ipairs(call('ZRANGE', page.head_line, 0, -1)) do
    step_back(member, 0)
  end
  for _, member in ipairs(call('ZRANGE', T .. ':g:' .. queue, 0, -1)) do
    step_back(member, lane_length(member))
  end
  call_many('ZADD', page.lane_line, returned, 2)
  call('DEL', page.head_line, T .. ':g:' .. queue, T .. ':o:' .. queue, T .. ':z:' .. queue,
    T .. ':d:' .. queue)
end

local function make_heads_anew(page)
  for _, member in ipairs(call('ZRANGE', page.lane_line, 0, -1)) do
    local length = lane_length(member)
    lane_moved(page, sub(member, 5, length), sub(member, length + 1))
  end
end

-- Who holds capacity: what runs, and what waits for an answer from outside.
local function burdening()
  local numbers = {}
  for _, session in ipairs(call('SMEMBERS', T .. ':holders')) do
    for _, number in ipairs(call('ZRANGE', T .. ':s:' .. session, 0, -1)) do
      numbers[#numbers + 1] = number
    end
  end
  for _, member in ipairs(call('ZRANGE', T .. ':w', 0, -1)) do
    if sub(member, 5, 10) == 'reply:' then
      numbers[#numbers + 1] = sub(member, -NUMBER)
    end
  end
  return numbers
end

-- The units of keys and tasks are counted from now on, or others: they are counted once for now.
local function count_use(page)
  call('DEL', T .. ':u:' .. page.queue, T .. ':v:' .. page.queue)
  page.in_use, page.moved = {u = {}, v = {}}, {u = {}, v = {}}
  if #page.tasks == 0 and not page.counts_keys then
    return
  end
  for _, body in ipairs(fetch('j', burdening())) do
    local head = head_of(body)
    if head[1] == page.queue then
      if page.counts_keys and head[9] then
        use(page, 'u', head[9], head[8])
      end
      if page.limits_task[head[2]] then
        use(page, 'v', head[2], head[8])
      end
    end
  end
end

local function go_within(page, outer)
  if outer and outer ~= page.within then
    call('HDEL', T .. ':i:' .. outer, page.queue)
  end
  if page.within then
    call('HSET', T .. ':i:' .. page.within, page.queue, whole(page.used))
  end
end

local function write_settings(page, settings)
  local name = T .. ':q:' .. page.queue
  call('DEL', name)
  page.written, page.changed = {}, true
  call('HSET', name, 's', settings[2], 'o', settings[3], 'p', settings[4])
  for i, field in ipairs({'c', 'k', 'x', 'a', 'y'}) do
    if settings[4 + i] then
      call('HSET', name, field, settings[4 + i])
    end
  end
  page.time_first, page.paused, page.away = settings[3] == 1, settings[4] == 1, settings[8] == 1
  page.capacity, page.key_capacity = settings[5], settings[6]
  page.keys = settings[7] and decode(settings[7]) or NONE
  page.opening = 0
  obey(page, settings[9] and decode(settings[9]) or NONE)
end

-- settings: name, JSON, order, paused, capacity, capacity of a key, exceptions by key, away, rules
function configure(settings)
  local page = page_of(settings[1])
  settle_lanes()
  local before = {
    lanes = encode({page.tasks, page.by_key and 1}), time_first = page.time_first,
    use = encode({page.tasks, page.counts_keys and 1}),
    rules = encode({page.ageing, page.rules.turns}), fair = page.fair, head_size = page.head_size,
    within = page.within,
  }
  write_settings(page, settings)
  go_within(page, before.within)
  local other_order = before.time_first ~= page.time_first
  local other_lanes = before.lanes ~= encode({page.tasks, page.by_key and 1})
  local other_heads = other_order or other_lanes or before.fair ~= page.fair
    or page.fair and before.rules ~= encode({page.ageing, page.rules.turns})
  if other_heads then
    dissolve_heads(page, before)
  end
  if other_order then
    turn(page)
  end
  if other_lanes then
    change_lanes(page)
  end
  if before.use ~= encode({page.tasks, page.counts_keys and 1}) then
    count_use(page)
  end
  if other_heads then
    make_heads_anew(page)
  else
    for _, name in ipairs(call('SMEMBERS', T .. ':z:' .. page.queue)) do
      page.roused[name] = true
    end
  end
  if not page.dozes then
    call('DEL', T .. ':d:' .. page.queue)
  end
end
