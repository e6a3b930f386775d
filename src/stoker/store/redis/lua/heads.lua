-- Heads: the foremost jobs of the lanes, which are all that a claim looks at.
--
--   T:h:<queue>  head mark lane        a sorted set: the row of each lane and bucket, the foremost
--   T:g:<queue>  task head mark lane   the same for lanes of tasks with a limit, task by task
--   T:o:<queue>  lane bucket -> heads  a hash: each row as it was lined up
--   T:z:<queue>  lanes                 a set: those that are shut, since their key has no room
--   T:d:<queue>  lanes                 a sorted set by the moment at which to look at them again
--   T:p:<queue>  parties               a sorted set by how far they have been served
--
-- A head is an order. In a fair queue the number of the key stands before it, as kernel.turns says,
-- and, if jobs age, by what the queue sorts them; and only what is due is among the heads there,
-- since it would be in the way of all claims. A party is = and a key, or nothing for the jobs without
-- one. Where each key has but one lane and bucket, and a head there, the foremost of its heads has
-- that number: T:p need not have it.
--
-- A row is one job long until somebody claims from its lane: then those who come next line up, many
-- at once, so that no claim has to move each of them by itself. The mark tells who is the last of a
-- row. That one stands in T:k, too, before all who stand behind, so that a lane and bucket with jobs
-- always has some there; the others of a row stand among the heads alone. Whoever takes the last
-- lines up the next row. The others leave without a word in T:o.
--
-- In a fair queue a row counts on: each head has the number that its key will have if those before
-- it are taken at their numbers and weigh one. If they are not the row is lined up anew.

local ROW = 16 -- heads that line up at once
local FURTHEST = 2 ^ 62 -- how far ageing may set a rank from another: what is beyond is as good
local AMID, LAST = '\0', '\1'
LAST_MARK = byte(LAST)

-- By what a queue sorts its jobs: the order, unless they age.
function rating_of(page, order)
  if not page.ageing then
    return order
  end
  local aged = unsorted(sub(order, 1, 8)) * page.ageing + unsorted(sub(order, 9, 16))
  return sortable(math.max(math.min(aged, FURTHEST), -FURTHEST)) .. sub(order, 9)
end

function due_of(page, order)
  return page.time_first and sub(order, 1, 8) or sub(order, 9, 16)
end

-- How far those with a key have been served, or (false) those without; 0 if nobody is further back.
-- first: the foremost head of one of their lanes, if that has one.
function served(page, key, first)
  local number = page.served[key]
  if not number then
    number = first and unsorted(sub(first, 1, 8))
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

-- changes: who leaves the lines of heads and who enters them, by line; rows from now on, and lanes
-- that have none any more; and how far keys have been served that have no head any more.
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

-- These heads are the row of a lane and bucket from now on.
function line_up(page, changes, name, field, row)
  local _, task = key_and_task(name)
  local line, prefix = line_of_heads(page, task)
  local come, set, last = moves_in(changes, line).come, changes.set, #row
  local n, m = #come, #set
  for i = 1, last do
    come[n + 1], come[n + 2] = '0', prefix .. row[i] .. (i < last and AMID or LAST) .. name
    n = n + 2
  end
  set[m + 1], set[m + 2] = field, last > 1 and concat(row) or row[1]
end

-- A lane and bucket has no head any more. first: the foremost it had, if that is known.
function give_up(page, changes, name, field, first)
  changes.cleared[#changes.cleared + 1] = field
  if not page.fair then
    return
  end
  local key = key_and_task(name)
  local number = page.served[key or false] or first and unsorted(sub(first, 1, 8)) or 0
  if number > page.clock then
    local reached, n = changes.reached, #changes.reached
    reached[n + 1], reached[n + 2] = whole(number), party_of(key)
  end
end

function rewrite_heads(page, changes)
  for line, moves in pairs(changes.lines) do
    call_many('ZREM', line, moves.gone, 1)
    call_many('ZADD', line, moves.come, 2)
  end
  call_many('HDEL', T .. ':o:' .. page.queue, changes.cleared, 1)
  call_many('HSET', T .. ':o:' .. page.queue, changes.set, 2)
  write_turns(page, changes.reached)
end

-- In a fair queue a lane sleeps until its foremost job is due. Does it?
local function falls_asleep(page, name, order)
  local due = due_of(page, order)
  if due <= NOW8 then
    return false
  end
  call('ZADD', T .. ':d:' .. page.queue, 'LT', whole(unsorted(due)), name)
  return true
end

-- -- rows -----------------------------------------------------------------------------------

-- How many may line up at once. Where lanes are shut they would have to step back again and again,
-- and so in turns of which one was heavy or light in this claim; and where a key has several rows
-- each would move the numbers of the others.
function row_length(page)
  if has_shut_lanes(page) or page.fair and (page.uneven or has_buckets(page) or #page.tasks > 0) then
    return 1
  end
  return ROW
end

-- How far a key gets by a job of this weight.
function turn_length(page, key, weight)
  local turns_each = key and page.rules.turns and page.rules.turns[key]
  return turns_each and math.floor(weight * WHOLE_WEIGHT / turns_each) or weight
end

-- The row of a lane in which these come next; nil if there is none, or it sleeps until they are
-- due. number: that of the key, in a fair queue. As long as it is not ahead of the queue's clock
-- nobody knows when it will be the turn of those behind the first.
function row_of(page, name, orders, number)
  if not page.fair or not orders[1] then
    return orders[1] and orders
  elseif falls_asleep(page, name, orders[1]) then
    return nil
  end
  local row, key = {}, key_and_task(name)
  local length = turn_length(page, key, WHOLE_WEIGHT)
  for i = 1, number > page.clock and #orders or 1 do
    local order = orders[i]
    local rating = page.ageing and rating_of(page, order) or ''
    row[i] = sortable(number + (i - 1) * length) .. rating .. order
  end
  return row
end

-- The orders of those who come next behind a member of a lane's line, as many as are wanted or
-- fewer. In a fair queue they are due, or there is but one.
function orders_behind(page, name, member, field, wanted)
  local from, to, first = '(' .. member, '[' .. field .. HIGH, 5 + #name
  local due = page.fair and '[' .. field .. NOW8 .. HIGH or to
  local orders = call('ZRANGEBYLEX', page.lane_line, from, due, 'LIMIT', 0, wanted)
  if page.fair and #orders == 0 then
    orders = call('ZRANGEBYLEX', page.lane_line, from, to, 'LIMIT', 0, 1)
  end
  for i = 1, #orders do
    orders[i] = sub(orders[i], first)
  end
  return orders
end

-- The last of a row was taken, and this row lines up behind it, or nobody: all up to the new last
-- one are gone from the lane's line.
function move_on(page, name, field, former, row)
  local order = row and sub(row[#row], -22)
  call('ZREMRANGEBYLEX', page.lane_line, '[' .. former,
    order and '(' .. in_lane(name, order) or '[' .. field .. HIGH)
end

-- What a row is in the line of heads: what stands before it there, its members, and the heads.
function members_of(page, name, row)
  local _, task = key_and_task(name)
  local _, prefix = line_of_heads(page, task)
  local heads, members = split(row, page.head_size), {}
  for i = 1, #heads do
    members[i] = prefix .. heads[i] .. (i < #heads and AMID or LAST) .. name
  end
  return prefix, members, heads
end

-- Those of a row who are still among the heads step back into the lane's line, but for those who
-- left the lane meanwhile. Returns the foremost of them.
function step_back(page, changes, name, row)
  local _, task = key_and_task(name)
  local line = line_of_heads(page, task)
  local _, members, heads = members_of(page, name, row)
  local last = #heads
  if last == 1 then
    local gone = moves_in(changes, line).gone
    gone[#gone + 1] = members[1]
    return heads[1]
  end
  local scores, back, first = call('ZMSCORE', line, spread(members)), {}, nil
  for i = 1, last do
    local member = in_lane(name, sub(heads[i], -22))
    if scores[i] then
      first = first or heads[i]
      if i < last and not page.gone[member] then
        back[#back + 1], back[#back + 2] = '0', member
      end
    end
  end
  call_many('ZREM', line, members, 1)
  call_many('ZADD', page.lane_line, back, 2)
  return first
end
