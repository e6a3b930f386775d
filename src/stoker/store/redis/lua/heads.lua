-- Heads: the foremost jobs of the lanes, which are all that a claim looks at.
--
--   T:h:<queue>  head lane           a sorted set: the foremost job of each lane and bucket
--   T:g:<queue>  task head lane      the same for lanes of tasks with a limit, task by task
--   T:o:<queue>  lane bucket -> head followers   a hash: what is known of a lane that has a head
--   T:z:<queue>  lanes               a set: those that are shut, since their key has no room
--   T:d:<queue>  lanes               a sorted set by the moment at which to look at them again
--   T:p:<queue>  parties             a sorted set by how far they have been served
--
-- A head is an order. In a fair queue the number of the key stands before it, as kernel.turns says,
-- and, if jobs age, by what the queue sorts them; and only what is due is among the heads there,
-- since it would be in the way of all claims. A party is = and a key, or nothing for the jobs without
-- one. Where each key has but one lane and bucket, and a head there, that has its number: T:p need
-- not have it.
--
-- Followers are the orders of those who come next in the lane and bucket, without a gap. A claim that
-- had to look them up wrote them down for those after it; how many there are says nothing. In a queue
-- that is not fair the head may also be one of the followers: those before it have left, and nothing
-- had to be written for that.

local AHEAD = 8 -- followers that are looked up at once

-- By what a queue sorts its jobs: the order, unless they age.
function rating_of(page, order)
  if not page.ageing then
    return order
  end
  local aged = unsorted(sub(order, 1, 8)) * page.ageing + unsorted(sub(order, 9, 16))
  return sortable(aged) .. sub(order, 9)
end

function due_of(page, order)
  return page.time_first and sub(order, 1, 8) or sub(order, 9, 16)
end

-- How far those with a key have been served, or (false) those without; 0 if nobody is further back.
-- kept: what is kept of one of their lanes, if that has a head.
function served(page, key, kept)
  local number = page.served[key]
  if not number then
    number = kept and unsorted(sub(kept, 1, 8))
      or tonumber(call('ZSCORE', T .. ':p:' .. page.queue, party_of(key)) or '0')
    page.served[key] = number
  end
  return number > page.clock and number or 0
end

-- The line with a lane's heads, and what stands before them there.
function line_of_heads(page, task)
  if task then
    return T .. ':g:' .. page.queue, pack('>I4', #task) .. task
  end
  return page.head_line, ''
end

-- changes: who leaves the lines of heads and who enters them, by line, and what is kept of lanes from
-- now on; and how far keys have been served that have no head any more.
function no_changes()
  return {lines = {}, set = {}, cleared = {}, reached = {}}
end

local function moves_in(changes, line)
  local moves = changes.lines[line]
  if not moves then
    moves = {gone = {}, come = {}}
    changes.lines[line] = moves
  end
  return moves
end

-- A change of a lane and bucket: its head before and after, or false, and what is kept.
function note_change(page, changes, name, field, before, head, kept)
  local key, task = key_and_task(name)
  local number = page.fair and before and not head and unsorted(sub(before, 1, 8))
  if number and number > page.clock then
    local reached, n = changes.reached, #changes.reached
    reached[n + 1], reached[n + 2] = whole(number), party_of(key)
  end
  local line, prefix = line_of_heads(page, task)
  if before ~= head then
    local moves = moves_in(changes, line)
    local gone, come, n = moves.gone, moves.come, #moves.come
    gone[#gone + 1] = before and prefix .. before .. name or nil
    if head then
      come[n + 1], come[n + 2] = '0', prefix .. head .. name
    end
  end
  if kept then
    local set, n = changes.set, #changes.set
    set[n + 1], set[n + 2] = field, kept
  else
    changes.cleared[#changes.cleared + 1] = field
  end
end

-- Any of those that are kept of a lane may be the head that leaves.
local function note_all_gone(page, changes, name, kept)
  local _, task = key_and_task(name)
  local line, prefix = line_of_heads(page, task)
  local gone = moves_in(changes, line).gone
  for _, order in ipairs(split(kept, 22)) do
    gone[#gone + 1] = prefix .. order .. name
  end
end

function rewrite_heads(page, changes)
  for line, moves in pairs(changes.lines) do
    call_many('ZREM', line, moves.gone, 1)
    call_many('ZADD', line, moves.come, 2)
  end
  call_many('HSET', T .. ':o:' .. page.queue, changes.set, 2)
  call_many('HDEL', T .. ':o:' .. page.queue, changes.cleared, 1)
  write_turns(page, changes.reached)
end

-- In a fair queue a lane sleeps until its foremost job is due. Does it?
function falls_asleep(page, name, order)
  local due = due_of(page, order)
  if due <= NOW8 then
    return false
  end
  call('ZADD', T .. ':d:' .. page.queue, 'LT', whole(unsorted(due)), name)
  return true
end

-- What is to stand in the line of heads for a job; false if its lane is to sleep until it is due.
function head_for(page, name, order, kept)
  if not page.fair then
    return order
  elseif falls_asleep(page, name, order) then
    return false
  end
  local key = key_and_task(name)
  local rating = page.ageing and rating_of(page, order) or ''
  return sortable(served(page, key or false, kept)) .. rating .. order
end

local function first_in(page, field)
  local first = call('ZRANGEBYLEX', page.lane_line, '[' .. field, '[' .. field .. HIGH,
    'LIMIT', 0, 1)[1]
  return first and sub(first, 5 + unpack_struct('>I4', first))
end

-- The orders of those who come next in a lane and bucket behind a member of its line, due or not, one
-- behind the other.
function orders_behind(page, name, member, field)
  local orders, lane = {}, 4 + #name
  local found = call('ZRANGEBYLEX', page.lane_line, '(' .. member, '[' .. field .. HIGH,
    'LIMIT', 0, AHEAD)
  for i = 1, #found do
    orders[i] = sub(found[i], lane + 1)
  end
  return concat(orders)
end

-- What is kept of these lanes and buckets: head and followers, or false.
function kept_heads(page, fields)
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

-- Where those begin in what is kept of a lane who follow its head, of whose order this is the end.
function behind_head(page, kept, tail)
  if page.fair then
    return page.head_size + 1
  end
  local first, last = string.find(kept, tail, 1, true)
  while last and last % 22 > 0 do -- the end of one order and the beginning of the next
    first, last = string.find(kept, tail, first + 1, true)
  end
  return (last or #kept) + 1
end

-- The head of a lane and bucket is this job from now on, or nobody's. kept: what is known so far.
local function change_head(page, changes, name, field, kept, order, followers)
  local head = order and head_for(page, name, order, kept)
  local news = head and head .. followers
  if news == kept then
    return
  end
  local before = kept and sub(kept, 1, page.head_size)
  if kept and not page.fair then
    note_all_gone(page, changes, name, kept)
    before = false
  end
  note_change(page, changes, name, field, before, head, news)
end

-- Who is foremost in a lane and bucket that somebody joined or left; nil: who was it before, and all
-- that is known of those behind is still so, since nobody moved but behind them.
local function foremost_now(page, field, kept, moved)
  if kept and moved > sub(kept, -22) then
    return nil
  end
  return first_in(page, field) or false
end

-- Calls act(bucket, order of the foremost) for each bucket of a lane, from the given one on.
local function each_bucket(page, name, first, act)
  local lane = in_lane(name, '')
  local from = '[' .. lane .. first
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

-- All buckets of these lanes, in which nobody has moved.
function settle_wholly(page, lanes)
  local names, fields, orders, changes = {}, {}, {}, no_changes()
  for _, name in ipairs(lanes) do
    each_bucket(page, name, '', function(bucket, order)
      local n = #names + 1
      names[n], fields[n], orders[n] = name, in_lane(name, bucket), order
    end)
  end
  local kept = kept_heads(page, fields)
  for i, order in ipairs(orders) do
    local followers = kept[i] and sub(kept[i], behind_head(page, kept[i], order)) or ''
    change_head(page, changes, names[i], fields[i], kept[i], order, followers)
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
  each_bucket(page, name, page.ageing and '' or bucket_of(page, order), function(bucket, foremost)
    local field = in_lane(name, bucket)
    local kept = call('HGET', T .. ':o:' .. page.queue, field)
    if kept and rating_of(page, foremost) >= rating then
      local head = page.fair and sub(kept, 1, page.head_size) or foremost
      note_change(page, changes, name, field, head, false, false)
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

local function settle_moved(page)
  local names, fields, moved, changes = {}, {}, {}, no_changes()
  for name, buckets in pairs(page.lanes) do
    for bucket, order in pairs(buckets) do
      local n = #names + 1
      names[n], fields[n], moved[n] = name, in_lane(name, bucket), order
    end
  end
  local kept = kept_heads(page, fields)
  for i, name in ipairs(names) do
    local order = foremost_now(page, fields[i], kept[i], moved[i])
    if order ~= nil then
      change_head(page, changes, name, fields[i], kept[i], order, '')
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
      page.lanes = {}
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
  local changes = no_changes()
  for _, member in ipairs(members) do
    local last = #prefix + page.head_size
    local head, name = sub(member, #prefix + 1, last), sub(member, last + 1)
    local field, level = in_lane(name, bucket_of(page, sub(head, -22))), sortable(0) .. sub(head, 9)
    note_change(page, changes, name, field, head, level, level)
  end
  rewrite_heads(page, changes)
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
  if page.rank == MIXED or #page.tasks > 0 then
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
