-- Gates: who may start, as kernel.admission says, whose words these are in another language.
--
-- A limit is a meter's during one claim; a gate is a limit as those see it who stand in one line
-- before it, and is shut once it has refused one of them. A door has the gates of one queue.

KEY_FULL, TASK_FULL, SHARE_FULL = 1, 2, 3

local function fits(used, weight, limit)
  return not limit or used + weight <= limit or used == 0
end

local function refuses(gate, weight)
  local limit = gate.limit
  if not fits(limit.used, weight, limit.capacity) then
    gate.shut = true
  elseif limit.flow then
    gate.opens_at = free_at(limit.flow, weight)
    gate.shut = gate.opens_at ~= nil
  end
  return gate.shut
end

local function is_beyond(gate, weight)
  gate.beyond = gate.beyond or not fits(gate.limit.used, weight, gate.limit.share)
  return gate.beyond
end

local function go_in(limit, weight)
  limit.used = limit.used + weight
  if limit.flow then
    flow_on(limit.flow, weight)
  end
end

-- The door of a queue, which need not be known: who is within another asks there, too.
function door_of(doors, queue)
  local door = doors[queue]
  if not door then
    local page = known_page(queue)
    local capacity, rate = page and page.capacity, page and page.rules.rate
    door = {page = page, limits = {}, gates = {}}
    door.own = {limit = {
      capacity = capacity, used = capacity and in_use_within(queue) or 0,
      flow = rate and flow_of(queue, '', rate),
    }}
    doors[queue] = door
  end
  return door
end

local function limit_of_key(door, key)
  local limit = door.limits[key]
  if limit == nil then
    local page, rules = door.page, door.page.rules
    local capacity = page.keys[key] or page.key_capacity
    local rate = rules.key_rates and rules.key_rates[key] or rules.key_rate
    local share = rules.lent and rules.lent[key]
    limit = (capacity or rate or share) and {
      capacity = capacity, share = share,
      used = (capacity or share) and in_use(page, 'u', key) or 0,
      flow = rate and flow_of(page.queue, '=' .. key, rate),
      limit = false, shut = false, beyond = false, opens_at = nil,
    } or false
    door.limits[key] = limit
  end
  return limit
end

-- Where no task has a limit a key has only one line: there the limit is also the gate.
local function gate_of_key(door, name, key)
  local gate = door.gates[name]
  if gate == nil then
    local limit = limit_of_key(door, key)
    gate = limit and (#door.page.tasks == 0 and limit or {limit = limit}) or false
    if gate then
      gate.limit = limit
    end
    door.gates[name] = gate
  end
  return gate
end

local function gate_of_task(door, task)
  local gate = door.tasks and door.tasks[task]
  if not gate then
    local page, rules = door.page, door.page.rules
    local capacity = rules.tasks and rules.tasks[task]
    local rate = rules.task_rates and rules.task_rates[task]
    gate = {limit = {
      capacity = capacity, used = capacity and in_use(page, 'v', task) or 0,
      flow = rate and flow_of(page.queue, '~' .. task, rate),
    }}
    door.tasks = door.tasks or {}
    door.tasks[task] = gate
  end
  return gate
end

function is_full(door)
  return door.own.shut or (door.outer and door.outer.shut)
end

-- Is there no room for the key or the task of the job whose turn it would be? `lent`: it may have
-- more than its share.
function bars(door, entry, lent)
  local weight = entry.weight
  if weight == 0 then
    return nil
  end
  local of_task = entry.task and gate_of_task(door, entry.task)
  if of_task and of_task.shut then
    return TASK_FULL
  end
  local of_key = entry.key and gate_of_key(door, entry.name, entry.key)
  if of_key then
    if of_key.shut then
      return KEY_FULL
    elseif of_key.limit.share and not lent and is_beyond(of_key, weight) then
      return SHARE_FULL
    elseif refuses(of_key, weight) then
      return KEY_FULL
    end
  end
  return of_task and refuses(of_task, weight) and TASK_FULL or nil
end

-- Lets a job in that is not barred, if the queue has room, and the one that it is within.
function lets_in(door, entry)
  local weight, own, outer = entry.weight, door.own, door.outer
  if weight == 0 then
    return true
  end
  if is_full(door) or refuses(own, weight) or (outer and refuses(outer, weight)) then
    return false
  end
  go_in(own.limit, weight)
  if outer then
    go_in(outer.limit, weight)
  end
  local of_key = entry.key and door.gates[entry.name]
  if of_key then
    go_in(of_key.limit, weight)
  end
  if entry.task then
    go_in(gate_of_task(door, entry.task).limit, weight)
  end
  return true
end

local function each_limit(door, act)
  act(door.own.limit)
  for _, limit in pairs(door.limits) do
    if limit then
      act(limit)
    end
  end
  for _, gate in pairs(door.tasks or NONE) do
    act(gate.limit)
  end
end

-- When a rate opens: of the queue, its tasks, or the one it is within. Those of keys wake lanes.
local function opening_of(door)
  local least = door.own.opens_at or math.huge
  least = math.min(least, door.outer and door.outer.opens_at or math.huge)
  for _, gate in pairs(door.tasks or NONE) do
    least = math.min(least, gate.opens_at or math.huge)
  end
  return least < math.huge and least or 0
end

-- What a claim did to the rates is remembered.
function close_doors(doors)
  for _, door in pairs(doors) do
    each_limit(door, function(limit)
      if limit.flow and limit.flow.moved then
        remember_flow(limit.flow)
      end
    end)
    local page, opening = door.page, door.page and opening_of(door)
    if page and page.opening ~= opening then
      page.opening, page.changed = opening, true
    end
  end
end
