-- The books: one page for each queue that a call touches, with its settings and its counters.
--
-- T:q:<queue> is a hash: s settings (JSON, for the client), o order (1: time first), p paused,
-- c capacity, k capacity of a key, x exceptions by key, a (1: it is limited, and its jobs live in
-- another partition), 0 to 5 jobs by state, u units in use, n queued jobs that have a lane.
-- T:u:<queue> has the units in use by key. T:queues names all queues, T:lines those with queued
-- jobs. A page is read once and written once in a call.

local PAGE = {'s', 'o', 'p', 'c', 'k', 'x', 'u', 'n', '0', '1', '2', '3', '4', '5', 'a'}

local pages -- of this call, by queue

local function read_page(queue)
  local facts = call('HMGET', T .. ':q:' .. queue, spread(PAGE))
  local page = {
    queue = queue, known = facts[1] and true, changed = false, eased = false,
    time_first = facts[2] == '1', paused = facts[3] == '1',
    capacity = tonumber(facts[4] or ''), key_capacity = tonumber(facts[5] or ''),
    keys = facts[6] and decode(facts[6]) or {},
    used = tonumber(facts[7] or '0'), laned = tonumber(facts[8] or '0'),
    away = facts[15] == '1', joins = {}, key_used = {}, lanes = {}, opened = {},
  }
  page.written = {used = page.used, laned = page.laned}
  for state = 0, 5 do
    page[state] = tonumber(facts[9 + state] or '0')
    page.written[state] = page[state]
  end
  page.in_line = page[0] > 0
  page.limited = page.capacity or page.key_capacity or next(page.keys) ~= nil
  return page
end

-- The page of a queue, nil if there is no such queue.
local function known_page(queue)
  local page = pages[queue]
  if not page then
    page = read_page(queue)
    if not page.known then
      return nil
    end
    pages[queue] = page
  end
  return page
end

-- The page of a queue, which comes into being if it is new.
local function page_of(queue)
  local page = known_page(queue)
  if not page then
    page = read_page(queue)
    page.known = true
    pages[queue] = page
    call('HSET', T .. ':q:' .. queue, 's', '{}')
    call('ZADD', T .. ':queues', 0, queue)
  end
  return page
end

local function count(page, state, jobs)
  page[state] = page[state] + jobs
  page.changed = true
end

local function key_used(page, key)
  local used = page.key_used[key]
  if not used then
    used = tonumber(call('HGET', T .. ':u:' .. page.queue, key) or '0')
    page.key_used[key] = used
  end
  return used
end

-- Units of capacity are taken, or given back.
local function burden(page, key, units)
  page.used = page.used + units
  page.changed = true
  if units < 0 and page.limited then
    page.eased = true
  end
  if key and units ~= 0 then
    local used = key_used(page, key) + units
    page.key_used[key] = used
    page.opened[key] = true
    if used == 0 then
      call('HDEL', T .. ':u:' .. page.queue, key)
    else
      call('HSET', T .. ':u:' .. page.queue, key, used)
    end
  end
end

local COUNTERS = {[0] = '0', '1', '2', '3', '4', '5', used = 'u', laned = 'n'}

local function write_page(page)
  local facts, n = {}, 0
  for counter, field in pairs(COUNTERS) do
    if page[counter] ~= page.written[counter] then
      facts[n + 1], facts[n + 2], n = field, whole(page[counter]), n + 2
      page.written[counter] = page[counter]
    end
  end
  if n > 0 then
    call('HSET', T .. ':q:' .. page.queue, spread(facts))
  end
  local in_line = page[0] > 0
  if in_line ~= page.in_line then
    page.in_line = in_line
    if in_line then
      call('ZADD', T .. ':lines', '0', page.queue)
    else
      call('ZREM', T .. ':lines', page.queue)
    end
  end
  page.changed = false
end

local function close_books()
  for _, page in pairs(pages) do
    if page.changed then
      write_page(page)
    end
  end
end
