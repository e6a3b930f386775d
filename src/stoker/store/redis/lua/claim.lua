-- Choosing and starting jobs.
--
-- A queue is walked in its order up to what is due; jobs that are not due are never looked at.
-- Jobs with a key stand in lanes, of which only the heads are looked at, so that a key without room
-- costs nothing, however many jobs it has. Who may enter is what kernel.admission says.

local LEAN, READY, FREE_LINE, HEADS, LANE_LINE = 0, 1, 2, 3, 4
local WHOLE_WEIGHT = 1000
local A_DAY = 86400000000
local STEP = 32 -- members of a line read at once, where it is not known how many are wanted

-- -- lines ----------------------------------------------------------------------------------

-- The due members of a line, in its order. A member begins with an order.
local function due_members(page, name, size)
  local members, at, done = {}, 0, false
  local from, to = '-', page.time_first and '[' .. NOW8 .. HIGH or '+'
  return function()
    while true do
      at = at + 1
      local member = members[at]
      if not member then
        if done then
          return nil
        end
        members, at = call('ZRANGEBYLEX', name, from, to, 'LIMIT', 0, size), 0
        done = #members < size
        if not done then
          from = '(' .. members[#members]
        end
      elseif page.time_first or sub(member, 9, 16) <= NOW8 then
        return member
      else
        -- Nothing behind it is due in this rank: on to the next one.
        from, members, at, done = '(' .. sub(member, 1, 8) .. HIGH, {}, 0, false
      end
    end
  end
end

-- The due jobs of a lane behind one of them, in the same bucket.
local function behind(page, key, order)
  local lane = lane_of(key)
  local last = page.time_first and lane .. NOW8 or lane .. sub(order, 1, 8) .. NOW8
  return function()
    local found = call('ZRANGEBYLEX', T .. ':k:' .. page.queue, '(' .. lane .. order,
      '[' .. last .. HIGH, 'LIMIT', 0, 1)[1]
    order = found and sub(found, #lane + 1)
    return order and order .. key
  end
end

-- -- admission ------------------------------------------------------------------------------

local function fits(used, weight, limit)
  return not limit or used + weight <= limit or used == 0
end

-- May the next job in order enter? True, 'key' or 'queue': which of them is full.
local function ask(gate, key, weight)
  if weight == 0 then
    return true
  end
  local page = gate.page
  if gate.full then
    return 'queue'
  end
  if key then
    gate.key_used[key] = gate.key_used[key] or key_used(page, key)
    local limit = page.keys[key] or page.key_capacity
    if gate.shut[key] or not fits(gate.key_used[key], weight, limit) then
      gate.shut[key] = true
      return 'key'
    end
  end
  if not fits(gate.used, weight, page.capacity) then
    gate.full = true
    return 'queue'
  end
  gate.used = gate.used + weight
  if key then
    gate.key_used[key] = gate.key_used[key] + weight
  end
  return true
end

-- What a body says before its payload.
local function head_of(body)
  return decode(sub(body, 5, 4 + unpack_struct('>I4', body) % 16777216))
end

local function weight_of(order)
  local body = fetch('j', {sub(order, 17, 22)})[1]
  return byte(body) == 0 and WHOLE_WEIGHT or head_of(body)[8] or WHOLE_WEIGHT
end

local function queue_up(heap, source, line)
  local member = line()
  if member then
    push(heap, {sub(member, 1, 22), source, line, sub(member, 23)})
  end
end

-- The due jobs of a queue in its order, as far as capacity lets them in: order, source, key.
local function admitted(page, full_lanes)
  local gate = {page = page, used = page.used, full = false, key_used = {}, shut = {}}
  local heap = {}
  queue_up(heap, READY, due_members(page, T .. ':r:' .. page.queue, STEP))
  if page.laned > 0 then
    queue_up(heap, FREE_LINE, due_members(page, T .. ':f:' .. page.queue, STEP))
    queue_up(heap, HEADS, due_members(page, T .. ':h:' .. page.queue, STEP))
  end
  return function()
    while #heap > 0 do
      local head = pop(heap)
      local order, source, line = head[1], head[2], head[3]
      local key = source >= HEADS and head[4] or nil
      local weight = source == FREE_LINE and 0 or weight_of(order)
      local answer = ask(gate, key, weight)
      if answer == 'queue' then
        local free
        for _, other in ipairs(heap) do
          free = other[2] == FREE_LINE and other or free
        end
        heap = {free}
      else
        if answer == 'key' then
          full_lanes[#full_lanes + 1] = {page, key, bucket_of(page, order)}
        elseif source == HEADS then
          queue_up(heap, LANE_LINE, behind(page, key, order))
        end
        if answer == true or source ~= LANE_LINE then
          queue_up(heap, source, line)
        end
        if answer == true then
          return order, source, key
        end
      end
    end
  end
end

local function line_of(page, size, full_lanes)
  if page.laned > 0 or page.limited then
    return admitted(page, full_lanes)
  end
  local next_member = due_members(page, T .. ':r:' .. page.queue, size)
  return function()
    local order = next_member()
    return order, LEAN
  end
end

-- -- taking ---------------------------------------------------------------------------------

-- Up to `limit` jobs of all these pages, the best first: {order, page, source, key}.
local function choose(waiting, limit, full_lanes)
  local taken, heap = {}, {}
  if #waiting == 0 then
    return taken
  end
  local size = #waiting == 1 and limit or math.min(limit, STEP)
  local function next_of(page, line)
    local order, source, key = line()
    if order then
      push(heap, {page.time_first and turned(order) or order, page, line, order, source, key})
    end
  end
  for _, page in ipairs(waiting) do
    next_of(page, line_of(page, size, full_lanes))
  end
  while #heap > 0 and #taken < limit do
    local head = pop(heap)
    taken[#taken + 1] = {head[4], head[2], head[5], head[6]}
    if #taken < limit then
      next_of(head[2], head[3])
    end
  end
  return taken
end

-- The jobs step out of their lines; returns their numbers.
local function take_out(taken)
  local numbers, leaving = {}, {}
  for i, job in ipairs(taken) do
    local order, page, source, key = job[1], job[2], job[3], job[4]
    numbers[i] = sub(order, 17)
    if source <= READY then
      local orders = leaving[page.queue] or {}
      orders[#orders + 1] = order
      leaving[page.queue] = orders
    else
      step_out(page, order, source == FREE_LINE and FREE or key)
    end
    page[0], page[1], page.changed = page[0] - 1, page[1] + 1, true
  end
  for queue, orders in pairs(leaving) do
    call_many('ZREM', T .. ':r:' .. queue, orders, 1)
  end
  return numbers
end

-- When the lease ends by itself, and the session to which it is bound; nil: by its policy neither.
-- As kernel.rules.lease_end.
local function terms_of(head, claim)
  local timeout, stays, visibility = A_DAY, false, claim[6]
  if head and head[14] then
    timeout, stays = head[14][2], head[14][3]
  end
  local lease_end = timeout and NOW + timeout
  if visibility and not stays then
    lease_end = math.min(NOW + visibility, lease_end or math.huge)
  end
  return lease_end, not stays and claim[5] or ''
end

local function lease(claim, holders, number, life, head)
  local lease_end, session = terms_of(head, claim)
  local leases = holders[session] or {}
  leases[#leases + 1] = lease_end and whole(lease_end) or 'inf'
  leases[#leases + 1] = number
  holders[session] = leases
  local until8 = lease_end and pack('>i8', lease_end) or NEVER
  return started(life, claim[3], session == '' and NOBODY or claim[4], until8)
end

-- Jobs without anything of their own start alike: their life is the one that was written first.
local function start(claim, taken, numbers)
  local bodies, lives = fetch('j', numbers), fetch('l', numbers)
  local holders, news, plain, plain_leases, plain_end = {}, {}, nil, nil, nil
  for i = 1, #taken do
    local body, job, weight = bodies[i], taken[i], WHOLE_WEIGHT
    if plain and not lives[i] and byte(body) == 0 then
      local n = #plain_leases
      news[i], plain_leases[n + 1], plain_leases[n + 2] = plain, plain_end, numbers[i]
    else
      local special = byte(body) ~= 0 and head_of(body)
      weight = special and special[8] or weight
      news[i] = lease(claim, holders, numbers[i], lives[i] or BORN, special)
      if not special and not lives[i] then
        local session
        plain, plain_end, session = news[i], terms_of(nil, claim)
        plain_leases, plain_end = holders[session], whole(plain_end)
      end
    end
    local page, key = job[2], job[4]
    if key then
      burden(page, key, weight)
    else
      page.used = page.used + weight
    end
  end
  put('l', numbers, news)
  for session, leases in pairs(holders) do
    call_many('ZADD', T .. ':s:' .. session, leases, 2)
    call('SADD', T .. ':holders', session)
  end
  return bodies, news
end

-- What is kept of a session; false if it is dead.
local function is_alive(session)
  local kept = call('HGET', T .. ':sessions', session)
  return kept and unpack_struct('>i8', kept) > NOW and kept
end

-- Those whose life is not the one that was told already are told one by one.
local function told_lives(lives)
  local odd = {}
  for i = 2, #lives do
    if lives[i] ~= lives[1] then
      odd[#odd + 1], odd[#odd + 2] = i - 1, lives[i]
    end
  end
  return odd
end

-- claim: queues, limit, token, session or NOBODY, session in hexadecimal or '', visibility or nil.
-- Returns false for a dead session, or numbers, the first life, bodies, and lives that differ.
local function serve(claim)
  if claim[5] ~= '' and not is_alive(claim[5]) then
    return false
  end
  local waiting, full_lanes, asked = {}, {}, {}
  for _, queue in ipairs(claim[1]) do
    local page = not asked[queue] and known_page(queue)
    asked[queue] = true
    if page and not page.paused and page[0] > 0 then
      waiting[#waiting + 1] = page
    end
  end
  local taken = choose(waiting, claim[2], full_lanes)
  local numbers, bodies, lives = take_out(taken), {}, {}
  if #taken > 0 then
    bodies, lives = start(claim, taken, numbers)
  end
  settle_lanes()
  for _, lane in ipairs(full_lanes) do
    shut_lane(lane[1], lane[2], lane[3])
  end
  return {concat(numbers), lives[1] or '', bodies, told_lives(lives)}
end
