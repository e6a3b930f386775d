-- Choosing and starting jobs.
--
-- The foremost jobs of all queues whose key and task have room are compared by rank, time and
-- arrival; the best is taken if its queue has room, too, or passed over. When all lines are through,
-- jobs that were beyond their share may have what nobody else wanted.

local A_DAY = 86400000000

local function place_of(page, order)
  return page.time_first and turned(order) or order
end

-- -- lines ----------------------------------------------------------------------------------

-- Queues that need no care: a job that is due may start.
local function lean_line(page, need)
  return {page = page, next = due_members(page, page.line, '', need)}
end

local function careful_line(page, need, doors)
  local door = door_of(doors, page.queue)
  if page.within then
    local outer = door_of(doors, page.within)
    door.outer, door.shared, outer.shared = outer.own, true, true
  end
  local walk = set_out(page, door, need)
  local function next_job()
    return foremost(walk)
  end
  return {page = page, next = next_job, walk = walk}
end

local function line_of(page, limit, is_alone, doors)
  local need = {wanted = limit, step = STEP}
  if page.laned > 0 or page.limited then
    return careful_line(page, need, doors)
  end
  need.step = is_alone and limit or STEP
  return lean_line(page, need)
end

-- -- choosing -------------------------------------------------------------------------------

local function stand_in_front(heap, line)
  local order = line.next()
  if order then
    push(heap, {place_of(line.page, order), line, order})
  end
end

local function take(line, order, taken)
  if line.walk then
    return let_in_foremost(line.walk, taken)
  end
  note_taken(taken, line.page, order, false, false)
  note_leaving(taken, line.page.line, order)
  return true
end

-- A queue alone needs no comparing.
local function pass_one(line, limit, taken)
  while taken.count < limit do
    local order = line.next()
    if not order then
      return
    end
    take(line, order, taken)
  end
end

-- A queue has become full that others are within: somebody else may be foremost there.
local function look_again(lines, heap)
  local again = {}
  for _, front in ipairs(heap) do
    if not front[2].walk then
      push(again, front)
    end
  end
  for _, line in ipairs(lines) do
    if line.walk then
      stand_in_front(again, line)
    end
  end
  return again
end

local function pass(lines, limit, taken)
  if #lines == 1 then
    return pass_one(lines[1], limit, taken)
  end
  local heap = {}
  for _, line in ipairs(lines) do
    stand_in_front(heap, line)
  end
  while #heap > 0 and taken.count < limit do
    local line, order = spread(pop(heap), 2)
    if not take(line, order, taken) and line.walk.door.shared then
      heap = look_again(lines, heap)
    elseif taken.count < limit then
      stand_in_front(heap, line)
    end
  end
end

-- Takes up to `limit` jobs of all these lines, the best first.
local function choose(lines, limit, taken)
  local aside = {}
  pass(lines, limit, taken)
  for _, line in ipairs(lines) do
    if line.walk and #line.walk.aside > 0 then
      set_out_again(line.walk)
      aside[#aside + 1] = line
    end
  end
  if #aside > 0 and taken.count < limit then
    pass(aside, limit, taken)
  end
end

-- -- taking ---------------------------------------------------------------------------------

local function take_out(taken)
  for line, members in pairs(taken.leaving) do
    call_many('ZREM', line, members, 1)
  end
  for _, page in ipairs(taken.pages) do
    page[0], page[1] = page[0] - 1, page[1] + 1
  end
end

-- What is known of the jobs from choosing them is not read again.
local function bodies_of(taken, read)
  local bodies, numbers, unread, places = taken.bodies, taken.numbers, {}, {}
  for i, body in ipairs(bodies) do
    if not body then
      unread[#unread + 1], places[#places + 1] = numbers[i], i
    end
  end
  for i, body in ipairs(read('j', unread)) do
    bodies[places[i]] = body
  end
  return bodies
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

function lease(claim, holders, number, life, head)
  local lease_end, session = terms_of(head, claim)
  local leases = holders[session] or {}
  leases[#leases + 1] = lease_end and whole(lease_end) or 'inf'
  leases[#leases + 1] = number
  holders[session] = leases
  local until8 = lease_end and pack('>i8', lease_end) or NEVER
  return started(life, claim[3], session == '' and NOBODY or claim[4], until8)
end

-- Who holds what, and until when.
function note_leases(holders)
  for session, leases in pairs(holders) do
    call_many('ZADD', T .. ':s:' .. session, leases, 2)
    call('SADD', T .. ':holders', session)
  end
end

-- Jobs without anything of their own start alike: their life is the one that was written first.
local function start(claim, taken)
  local numbers, read, write = taken.numbers, fetch, put
  if not is_sorted(numbers) then
    read, write = fetch_scattered, put_scattered
  end
  local bodies, lives = bodies_of(taken, read), read('l', numbers)
  local holders, news, plain, plain_leases, plain_end = {}, {}, nil, nil, nil
  for i = 1, taken.count do
    local body, page, task, weight = bodies[i], taken.pages[i], taken.tasks[i], WHOLE_WEIGHT
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
    page.used = page.used + weight
    if task then
      use(page, 'v', task, weight)
    end
  end
  write('l', numbers, news)
  note_leases(holders)
  return bodies, news
end

-- What is kept of a session; false if it is dead.
function is_alive(session)
  local kept = call('HGET', T .. ':sessions', session)
  return kept and unpack_struct('>i8', kept) > NOW and kept
end

-- Those whose life is not the one that was told already are told one by one.
function told_lives(lives)
  local odd = {}
  for i = 2, #lives do
    if lives[i] ~= lives[1] then
      odd[#odd + 1], odd[#odd + 2] = i - 1, lives[i]
    end
  end
  return odd
end

-- What time has changed in a queue's line of heads.
local function catch_up(page)
  if page.dozes then
    wake_lanes(page)
  end
  if page.fair then
    level_turns(page)
  end
end

-- The queues asked for, of which each counts once, in which somebody waits.
local function waiting_in(queues)
  local waiting, asked = {}, {}
  for _, queue in ipairs(queues) do
    local page = not asked[queue] and known_page(queue)
    asked[queue] = true
    local outer = page and page.within and known_page(page.within)
    if page and page[0] > 0 and not page.paused and not (outer and outer.paused) then
      catch_up(page)
      waiting[#waiting + 1] = page
    end
  end
  return waiting
end

local function lines_of(waiting, limit, doors)
  local lines = {}
  for i, page in ipairs(waiting) do
    lines[i] = line_of(page, limit, #waiting == 1, doors)
  end
  return lines
end

local function leave_lines(lines)
  for _, line in ipairs(lines) do
    if line.walk then
      leave_lanes(line.walk)
    end
  end
  settle_lanes()
  for _, line in ipairs(lines) do
    if line.walk then
      shut_lanes(line.walk)
    end
  end
end

-- claim: queues, limit, token, session or NOBODY, session in hexadecimal or '', visibility or nil,
-- where its worker listens if it stands (standing.lua).
-- Returns false for a dead session, or numbers, the first life, bodies, and lives that differ.
function serve(claim)
  if claim[5] ~= '' and not is_alive(claim[5]) then
    return false
  end
  local limit, waiting, doors, lines = claim[2], waiting_in(claim[1]), {}, NONE
  local taken = {count = 0, numbers = {}, pages = {}, tasks = {}, bodies = {}, leaving = {}}
  if #waiting ~= 1 or take_by_lanes(waiting[1], limit, taken) then
    lines = lines_of(waiting, limit - taken.count, doors)
    choose(lines, limit, taken)
  end
  local bodies, lives = {}, {}
  if taken.count > 0 then
    take_out(taken)
    bodies, lives = start(claim, taken)
  end
  close_doors(doors)
  leave_lines(lines)
  return {concat(taken.numbers), lives[1] or '', bodies, told_lives(lives)}
end
