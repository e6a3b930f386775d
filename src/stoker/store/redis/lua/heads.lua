-- Heads: the foremost jobs of the lanes, which are all that a claim looks at.
--
--   T:h:<queue>  head lane           a sorted set: the foremost job of each lane and bucket
--   T:g:<queue>  task head lane      the same for lanes of tasks with a limit, task by task
--   T:o:<queue>  lane bucket -> head     a hash: what the line of heads says of a lane
--   T:z:<queue>  lanes               a set: those that are shut, since their key has no room
--   T:d:<queue>  lanes               a sorted set by the moment at which to look at them again
--   T:p:<queue>  parties             a sorted set by how far they have been served
--
-- A head is an order. In a fair queue the number of the key stands before it, as kernel.turns says,
-- and by what the queue sorts its jobs; and only what is due is among the heads there, since it
-- would be in the way of all claims. A party is = and a key, or nothing for the jobs without one.

-- By what a queue sorts its jobs: the order, unless they age.
local function rating_of(page, order)
  if not page.ageing then
    return order
  end
  local aged = unsorted(sub(order, 1, 8)) * page.ageing + unsorted(sub(order, 9, 16))
  return sortable(aged) .. sub(order, 9)
end

local function due_of(page, order)
  return page.time_first and sub(order, 1, 8) or sub(order, 9, 16)
end

local function party_of(key)
  return key and '=' .. key or ''
end

-- How far a party has been served; 0 if nobody is further back.
local function served(page, party)
  local number = page.served[party]
  if not number then
    number = tonumber(call('ZSCORE', T .. ':p:' .. page.queue, party) or '0')
    page.served[party] = number
  end
  return number > page.clock and number or 0
end

-- The line with a lane's heads, and what stands before them there.
local function line_of_heads(page, task)
  if task then
    return T .. ':g:' .. page.queue, pack('>I4', #task) .. task
  end
  return page.head_line, ''
end

-- changes: name of the lane, field, head before or false, head from now on or false, ... one after
-- the other.
local function rewrite_heads(page, changes)
  local gone, come, set, cleared = {}, {}, {}, {}
  for i = 1, #changes, 4 do
    local name, field, before, head = spread(changes, i, i + 3)
    local _, task = key_and_task(name)
    local line, prefix = line_of_heads(page, task)
    if before then
      local members = gone[line] or {}
      members[#members + 1], gone[line] = prefix .. before .. name, members
    end
    if head then
      local members = come[line] or {}
      members[#members + 1], members[#members + 2] = '0', prefix .. head .. name
      come[line] = members
      set[#set + 1], set[#set + 2] = field, head
    else
      cleared[#cleared + 1] = field
    end
  end
  for line, members in pairs(gone) do
    call_many('ZREM', line, members, 1)
  end
  for line, members in pairs(come) do
    call_many('ZADD', line, members, 2)
  end
  call_many('HSET', T .. ':o:' .. page.queue, set, 2)
  call_many('HDEL', T .. ':o:' .. page.queue, cleared, 1)
end

-- What is to stand in the line of heads for a job; false if its lane is to sleep until it is due.
local function head_for(page, name, order)
  if not page.fair then
    return order
  end
  local due = due_of(page, order)
  if due > NOW8 then
    call('ZADD', T .. ':d:' .. page.queue, 'LT', whole(unsorted(due)), name)
    return false
  end
  return sortable(served(page, party_of((key_and_task(name))))) .. rating_of(page, order) .. order
end

local function first_in(page, field)
  local first = call('ZRANGEBYLEX', page.lane_line, '[' .. field, '[' .. field .. HIGH,
    'LIMIT', 0, 1)[1]
  return first and sub(first, 5 + unpack_struct('>I4', first)) or NOBODYS
end

-- What the line of heads says of these lanes and buckets.
local function heads_before(page, fields)
  local found = {}
  for at = 1, #fields, MOST_ARGUMENTS do
    local last = math.min(at + MOST_ARGUMENTS - 1, #fields)
    local heads = call('HMGET', T .. ':o:' .. page.queue, spread(fields, at, last))
    for i = 1, #heads do
      found[at + i - 1] = heads[i]
    end
  end
  return found
end

-- Brings the line of heads up to date. names and buckets: where to look; orders: who is foremost
-- there, as far as that is known.
local function settle_heads(page, names, buckets, orders)
  local fields, changes = {}, {}
  for i = 1, #names do
    fields[i] = lane_of(names[i]) .. buckets[i]
  end
  local before = heads_before(page, fields)
  for i = 1, #names do
    local order = orders[i] == UNKNOWN and first_in(page, fields[i]) or orders[i]
    local head = order ~= NOBODYS and head_for(page, names[i], order)
    if head ~= before[i] then
      local n = #changes
      changes[n + 1], changes[n + 2], changes[n + 3], changes[n + 4]
        = names[i], fields[i], before[i], head
    end
  end
  rewrite_heads(page, changes)
end

-- Calls act(bucket, order of the foremost) for each bucket of a lane, from the given one on.
local function each_bucket(page, name, first, act)
  local lane, from = lane_of(name), '[' .. lane_of(name) .. first
  while true do
    local found = call('ZRANGEBYLEX', page.lane_line, from, '[' .. lane .. HIGH,
      'LIMIT', 0, 1)[1]
    if not found then
      return
    end
    local order = sub(found, #lane + 1)
    local bucket = bucket_of(page, order)
    act(bucket, order)
    if page.time_first or page.rank ~= MIXED then
      return
    end
    from = '(' .. lane .. bucket .. HIGH
  end
end

-- All buckets of these lanes.
local function settle_wholly(page, lanes)
  local names, buckets, orders = {}, {}, {}
  for _, name in ipairs(lanes) do
    each_bucket(page, name, '', function(bucket, order)
      local n = #names + 1
      names[n], buckets[n], orders[n] = name, bucket, order
    end)
  end
  settle_heads(page, names, buckets, orders)
end

-- Opens those of these lanes that are shut.
local function open_lanes(page, names)
  local line, shut = T .. ':z:' .. page.queue, {}
  for at = 1, #names, MOST_ARGUMENTS do
    local last = math.min(at + MOST_ARGUMENTS - 1, #names)
    for i, is_shut in ipairs(call('SMISMEMBER', line, spread(names, at, last))) do
      shut[#shut + 1] = is_shut == 1 and names[at + i - 1] or nil
    end
  end
  if #shut == 0 then
    return
  end
  call_many('SREM', line, shut, 1)
  if page.dozes then
    call_many('ZREM', T .. ':d:' .. page.queue, shut, 1)
  end
  settle_wholly(page, shut)
end

-- Those behind a job that did not fit must not overtake it; those before it may still come. If only
-- time stands against it, it is asked again then.
local function shut_lane(page, name, order, opens_at)
  call('SADD', T .. ':z:' .. page.queue, name)
  local rating, changes = rating_of(page, order), {}
  each_bucket(page, name, page.ageing and '' or bucket_of(page, order), function(bucket)
    local field = lane_of(name) .. bucket
    local head = call('HGET', T .. ':o:' .. page.queue, field)
    if head and rating_of(page, sub(head, -22)) >= rating then
      local n = #changes
      changes[n + 1], changes[n + 2], changes[n + 3], changes[n + 4] = name, field, head, false
    end
  end)
  rewrite_heads(page, changes)
  if opens_at then
    call('ZADD', T .. ':d:' .. page.queue, 'LT', whole(opens_at), name)
  end
end

-- Lanes whose moment has come.
local function wake_lanes(page)
  local line = T .. ':d:' .. page.queue
  local names = call('ZRANGEBYSCORE', line, '-inf', moment())
  if #names > 0 then
    call_many('ZREM', line, names, 1)
    call_many('SREM', T .. ':z:' .. page.queue, names, 1)
    settle_wholly(page, names)
  end
end

local function settle_moved(page)
  local names, buckets, orders = {}, {}, {}
  for name, foremost in pairs(page.lanes) do
    for bucket, order in pairs(foremost) do
      local n = #names + 1
      names[n], buckets[n], orders[n] = name, bucket, order
    end
  end
  settle_heads(page, names, buckets, orders)
end

-- Looks up the heads of lanes that moved, and opens what an event may have made room for.
local function settle_lanes()
  for _, page in pairs(pages) do
    if next(page.lanes) then
      settle_moved(page)
    end
    local names = {}
    local function note(name)
      names[#names + 1] = name
    end
    for key in pairs(page.opened) do
      each_lane(page, key, note)
    end
    for name in pairs(page.roused) do
      note(name)
    end
    if #names > 0 then
      open_lanes(page, names)
    end
    page.lanes, page.opened, page.roused = {}, {}, {}
  end
end

-- -- turns ----------------------------------------------------------------------------------

-- Whoever is not further than the clock of the queue is as far as all others of that kind: only the
-- queue's order counts among them. Those who are just as far as the clock may stay where they are.
local function level_heads(page, task)
  local line, prefix = line_of_heads(page, task)
  local members = call('ZRANGEBYLEX', line, '[' .. prefix .. sortable(1),
    '(' .. prefix .. sortable(page.clock))
  local changes = {}
  for i, member in ipairs(members) do
    local head, name = sub(member, #prefix + 1, #prefix + 52), sub(member, #prefix + 53)
    changes[4 * i - 3], changes[4 * i - 1] = name, head
    changes[4 * i - 2] = lane_of(name) .. bucket_of(page, sub(head, -22))
    changes[4 * i] = sortable(0) .. sub(head, 9)
  end
  rewrite_heads(page, changes)
end

local function level_turns(page)
  level_heads(page)
  for _, task in ipairs(page.tasks) do
    level_heads(page, task)
  end
end

-- Some have had their turns: they stand further back now, with all they have in line.
local function remember_turns(page, clock, moved)
  local numbers, lanes = {}, {}
  for party, number in pairs(moved) do
    numbers[#numbers + 1], numbers[#numbers + 2] = whole(number), party
    page.served[party] = number
    each_lane(page, party ~= '' and sub(party, 2) or nil, function(name)
      if page.rank == MIXED or not page.lanes[name] then -- else it is settled in any case
        lanes[#lanes + 1] = name
      end
    end)
  end
  call_many('ZADD', T .. ':p:' .. page.queue, numbers, 2)
  if clock ~= page.clock then
    page.clock, page.changed = clock, true
    call('ZREMRANGEBYSCORE', T .. ':p:' .. page.queue, '-inf', whole(clock))
  end
  settle_wholly(page, lanes)
end
