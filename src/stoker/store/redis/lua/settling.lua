-- Settling: lanes in which somebody has moved get another row of heads, lanes are shut and opened,
-- and turns are remembered.

local function first_in(page, field)
  local first = call('ZRANGEBYLEX', page.lane_line, '[' .. field, '[' .. field .. HIGH,
    'LIMIT', 0, 1)[1]
  return first and sub(first, 5 + unpack_struct('>I4', first))
end

-- The rows of these lanes and buckets, or false.
local function kept_rows(page, fields)
  local found = {}
  for at = 1, #fields, MOST_ARGUMENTS do
    local last = math.min(at + MOST_ARGUMENTS - 1, #fields)
    local rows = call('HMGET', T .. ':o:' .. page.queue, spread(fields, at, last))
    for i = 1, #rows do
      found[at + i - 1] = rows[i]
    end
  end
  return found
end

-- This job, or nobody, is the row of a lane and bucket from now on; returns whether it has one.
local function stand_alone(page, changes, name, field, order, first)
  local key = key_and_task(name)
  local row = row_of(page, name, {order}, page.fair and served(page, key or false, first))
  if row then
    line_up(page, changes, name, field, row)
  end
  return row
end

-- The same for the foremost job. kept: the row that there is.
local function settle(page, changes, name, field, kept)
  local first = kept and step_back(page, changes, name, kept)
  if not stand_alone(page, changes, name, field, first_in(page, field), first) and kept then
    give_up(page, changes, name, field, first)
  end
end

-- Calls act(field) for each bucket of a lane, from the given one on.
local function each_bucket(page, name, first, act)
  local lane = in_lane(name, '')
  local from = '[' .. lane .. first
  while true do
    local found = call('ZRANGEBYLEX', page.lane_line, from, '[' .. lane .. HIGH,
      'LIMIT', 0, 1)[1]
    if not found then
      return
    end
    local bucket = bucket_of(page, sub(found, #lane + 1))
    act(in_lane(name, bucket))
    if not has_buckets(page) then
      return
    end
    from = '(' .. lane .. bucket .. HIGH
  end
end

-- All buckets of these lanes, in which nobody has moved: those that have a row may keep it, unless
-- turns have changed.
function settle_wholly(page, lanes)
  local names, fields, changes = {}, {}, no_changes()
  for _, name in ipairs(lanes) do
    each_bucket(page, name, '', function(field)
      local n = #names + 1
      names[n], fields[n] = name, field
    end)
  end
  local kept = kept_rows(page, fields)
  for i, name in ipairs(names) do
    if page.fair or not kept[i] then
      settle(page, changes, name, fields[i], kept[i])
    end
  end
  rewrite_heads(page, changes)
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
function shut_lane(page, name, order, opens_at)
  call('SADD', T .. ':z:' .. page.queue, name)
  page.shuts = true
  local rating, changes = rating_of(page, order), no_changes()
  each_bucket(page, name, page.ageing and '' or bucket_of(page, order), function(field)
    local kept = call('HGET', T .. ':o:' .. page.queue, field)
    if kept then
      local first = step_back(page, changes, name, kept)
      local foremost = first_in(page, field)
      local is_before = rating_of(page, foremost) < rating
      if not (is_before and stand_alone(page, changes, name, field, foremost, first)) then
        give_up(page, changes, name, field, first)
      end
    end
  end)
  rewrite_heads(page, changes)
  if opens_at then
    call('ZADD', T .. ':d:' .. page.queue, 'LT', whole(opens_at), name)
  end
end

-- Lanes whose moment has come.
function wake_lanes(page)
  local line = T .. ':d:' .. page.queue
  local names = call('ZRANGEBYSCORE', line, '-inf', moment())
  if #names > 0 then
    call_many('ZREM', line, names, 1)
    call_many('SREM', T .. ':z:' .. page.queue, names, 1)
    settle_wholly(page, names)
  end
end

-- Looks up the rows of lanes in which somebody has moved. Of those in which it was behind the row
-- nothing has changed.
local function settle_moved(page)
  local names, fields, moved, changes = {}, {}, {}, no_changes()
  for name, buckets in pairs(page.lanes) do
    for bucket, order in pairs(buckets) do
      local n = #names + 1
      names[n], fields[n], moved[n] = name, in_lane(name, bucket), order
    end
  end
  local kept = kept_rows(page, fields)
  for i, name in ipairs(names) do
    if not kept[i] or moved[i] <= sub(kept[i], -22) then
      settle(page, changes, name, fields[i], kept[i])
    end
  end
  rewrite_heads(page, changes)
end

-- Opens what an event may have made room for.
local function open_some(page)
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
  page.opened, page.roused = {}, {}
end

-- Looks up the heads of lanes that moved, and opens some.
function settle_lanes()
  for _, page in pairs(pages) do
    if next(page.lanes) then
      settle_moved(page)
      page.lanes, page.gone = {}, {}
    end
    if next(page.opened) or next(page.roused) then
      open_some(page)
    end
  end
end

-- -- turns ----------------------------------------------------------------------------------

-- Whoever is not further than the clock of the queue is as far as all others of that kind: only the
-- queue's order counts among them. Those who are just as far as the clock may stay where they are.
local function level_heads(page, task)
  local line, prefix = line_of_heads(page, task)
  local members = call('ZRANGEBYLEX', line, '[' .. prefix .. sortable(1),
    '(' .. prefix .. sortable(page.clock))
  local names, known = {}, {}
  for _, member in ipairs(members) do
    local name = sub(member, #prefix + page.head_size + 2)
    names[#names + 1] = not known[name] and name or nil
    known[name] = true
  end
  settle_wholly(page, names)
end

function level_turns(page)
  level_heads(page)
  for _, task in ipairs(page.tasks) do
    level_heads(page, task)
  end
end

-- All lanes of those who have had their turns, as far as there may be more than one of each.
function lanes_of(page, moved)
  local lanes = {}
  if has_buckets(page) or #page.tasks > 0 then
    for key in pairs(moved) do
      each_lane(page, key, function(name)
        lanes[#lanes + 1] = name
      end)
    end
  end
  return lanes
end

-- Some have had their turns: they will stand further back, with all they have in line.
function remember_turns(page, clock, moved)
  local reached, n = {}, 0
  for key, number in pairs(moved) do
    reached[n + 1], reached[n + 2], n = whole(number), party_of(key), n + 2
    page.served[key] = number
  end
  write_turns(page, reached)
  if clock ~= page.clock then
    page.clock, page.changed = clock, true
    call('ZREMRANGEBYSCORE', T .. ':p:' .. page.queue, '-inf', whole(clock))
  end
end
