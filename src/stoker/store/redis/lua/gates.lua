-- Gates: who may start, as kernel.admission says, whose words these are in another language.
--
-- A limit is a meter's during one claim; a gate is a limit as those see it who stand in one line
-- before it, and is shut once it has refused one of them. A door has the gates of one queue. Of a
-- key's limits nothing is kept but what is in its way: the lanes that are shut, and until when; those
-- that are beyond their share; and what has started under its rate.

KEY_FULL, TASK_FULL, SHARE_FULL = 1, 2, 3

local function fits(used, weight, limit)
  return not limit or used + weight <= limit or used == 0
end

local function refuses(gate, weight)
  local limit = gate.limit
  if not limit.capacity and not limit.flow then
    return false
  end
  if not fits(limit.used, weight, limit.capacity) then
    gate.shut = true
  elseif limit.flow then
    gate.opens_at = free_at(limit.flow, weight)
    gate.shut = gate.opens_at ~= nil
  end
  return gate.shut
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
    door = {page = page, shut = {}, opens_at = {}, beyond = {}, flows = {}}
    door.rates_keys = page and (page.rules.key_rate or page.rules.key_rates)
    door.minds_keys = page and (page.counts_keys or door.rates_keys)
    door.own = {limit = {
      capacity = capacity, used = capacity and in_use_within(queue) or 0,
      flow = rate and flow_of(queue, '', rate),
    }}
    doors[queue] = door
  end
  return door
end

-- What has started under the rate of a key; nil: there is none.
local function flow_of_key(door, key)
  local rules = door.page.rules
  local rate = rules.key_rates and rules.key_rates[key] or rules.key_rate
  if not rate then
    return nil
  elseif not door.flows[key] then
    door.flows[key] = flow_of(door.page.queue, '=' .. key, rate)
  end
  return door.flows[key]
end

-- Would the key have more than its share? It is not asked again.
local function is_beyond(door, name, key, weight)
  local share = door.page.rules.lent[key]
  if share and not fits(in_use(door.page, 'u', key), weight, share) then
    door.beyond[name] = true
  end
  return door.beyond[name]
end

local function key_refuses(door, name, key, weight)
  local page = door.page
  if page.counts_keys
    and not fits(in_use(page, 'u', key), weight, page.keys[key] or page.key_capacity) then
    door.shut[name] = true
    return true
  end
  local flow = door.rates_keys and flow_of_key(door, key)
  local opens_at = flow and free_at(flow, weight)
  if not opens_at then
    return false
  end
  door.shut[name], door.opens_at[name] = true, opens_at
  return true
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

-- Is there no room for the key or the task (or false) of the job whose turn it would be? `lent`: it
-- may have more than its share.
function bars(door, name, key, task, weight, lent)
  if weight == 0 then
    return nil
  end
  local of_task = task and gate_of_task(door, task)
  if of_task and of_task.shut then
    return TASK_FULL
  end
  if key and door.minds_keys then
    if door.shut[name] then
      return KEY_FULL
    elseif door.page.rules.lent and not lent and is_beyond(door, name, key, weight) then
      return SHARE_FULL
    elseif key_refuses(door, name, key, weight) then
      return KEY_FULL
    end
  end
  return of_task and refuses(of_task, weight) and TASK_FULL or nil
end

-- Lets a job in that is not barred, if the queue has room, and the one that it is within.
function lets_in(door, key, task, weight)
  local own, outer = door.own, door.outer
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
  if key then
    burden_key(door.page, key, weight)
    local flow = door.flows[key]
    if flow then
      flow_on(flow, weight)
    end
  end
  if task then
    go_in(gate_of_task(door, task).limit, weight)
  end
  return true
end

local function each_flow(door, act)
  act(door.own.limit.flow)
  for _, flow in pairs(door.flows) do
    act(flow)
  end
  for _, gate in pairs(door.tasks or NONE) do
    act(gate.limit.flow)
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
    each_flow(door, function(flow)
      if flow and flow.moved then
        remember_flow(flow)
      end
    end)
    local page, opening = door.page, door.page and opening_of(door)
    if page and page.opening ~= opening then
      page.opening, page.changed = opening, true
    end
  end
end
