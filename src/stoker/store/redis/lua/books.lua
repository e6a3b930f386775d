-- The books: one page for each queue that a call touches, with its settings and its counters.
--
-- T:q:<queue> is a hash: s settings (JSON, for the client), o order (1: time first), p paused,
-- c capacity, k capacity of a key, x exceptions by key, y rules (see below), a (1: it is limited,
-- and its jobs live in another partition), 0 to 5 jobs by state, u units in use, n queued jobs that
-- have a lane, b the rank of all that ever had one since there were none (* if it is not the same),
-- t the number of the key whose turn was last, w when a rate opens that refused some, e who stands in
-- wait for a job (standing.lua).
-- T:u:<queue> has the units in use by key if those are limited, T:v:<queue> those by task, of tasks
-- with a limit.
-- T:i:<queue> names the queues within this one, with the units each has in use. T:queues names all
-- queues, T:lines those with queued jobs. A page is read once and written once in a call;
-- `pages` has those of this call by queue.
--
-- Rules are what most queues do not have: names (of tasks with a limit), tasks (their units), rate,
-- key_rate, key_rates, task_rates, lent (units by key that are its share), within, fair, turns,
-- ageing. All of them can be missing.

local PAGE = {
  's', 'o', 'p', 'c', 'k', 'x', 'u', 'n', '0', '1', '2', '3', '4', '5', 'a', 'y', 't', 'w', 'b',
  'e',
}
NONE, MIXED = {}, '*'

-- Where many keys have units in use the server must not lay them out as a list, through which it
-- would walk for each of them. It never does where a value is long. No key is called so.
local FEW, FILLER = 8, rep('\255', 65)

function obey(page, rules)
  page.rules = rules
  page.within = rules.within ~= page.queue and rules.within or nil
  page.fair, page.ageing, page.tasks = rules.fair, rules.ageing, rules.names or NONE
  page.limits_task = {}
  for _, task in ipairs(page.tasks) do
    page.limits_task[task] = true
  end
  -- Where nothing is said about keys nobody needs to know who has which.
  page.by_key = page.key_capacity or next(page.keys) ~= nil or rules.key_rate or rules.key_rates
    or rules.lent or rules.fair or false
  page.counts_keys = page.key_capacity or next(page.keys) ~= nil or rules.lent or false
  page.head_size = rules.fair and (rules.ageing and 52 or 30) or 22
  -- Lanes of these sleep until a moment: there may be nothing due in them, or their rate says so.
  page.dozes = rules.fair or rules.key_rate or rules.key_rates
  local counts = page.capacity or page.by_key or rules.names or rules.rate or page.within
  page.weighs = counts
  page.limited = counts or rules.ageing or rules.within
  -- Here a job may have to wait until others end that have another key.
  page.shares_room = page.capacity or rules.names or rules.within
  page.only_keys = page.by_key and not (page.capacity or rules.rate or rules.names or rules.key_rate
    or rules.key_rates or rules.lent or rules.ageing or rules.within)
end

local function read_page(queue)
  local facts = call('HMGET', T .. ':q:' .. queue, spread(PAGE))
  local page = {
    queue = queue, known = facts[1] and true, changed = false, eased = false,
    time_first = facts[2] == '1', paused = facts[3] == '1',
    capacity = tonumber(facts[4] or ''), key_capacity = tonumber(facts[5] or ''),
    keys = facts[6] and decode(facts[6]) or NONE,
    used = tonumber(facts[7] or '0'), laned = tonumber(facts[8] or '0'),
    away = facts[15] == '1', stander = facts[20],
    clock = tonumber(facts[17] or '0'), opening = tonumber(facts[18] or '0'),
    joins = {}, lane_joins = {}, lanes = {}, gone = {}, opened = {}, roused = {},
    served = {},
    in_use = {u = {}, v = {}}, moved = {u = {}, v = {}},
    line = T .. ':r:' .. queue, free_line = T .. ':f:' .. queue,
    lane_line = T .. ':k:' .. queue, head_line = T .. ':h:' .. queue,
  }
  page.rank = page.laned > 0 and (facts[19] or MIXED) or nil
  obey(page, facts[16] and decode(facts[16]) or NONE)
  page.written = {
    used = page.used, laned = page.laned, clock = page.clock, opening = page.opening,
    rank = facts[19],
  }
  for state = 0, 5 do
    page[state] = tonumber(facts[9 + state] or '0')
    page.written[state] = page[state]
  end
  page.in_line = page[0] > 0
  return page
end

-- The page of a queue, nil if there is no such queue.
function known_page(queue)
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
function page_of(queue)
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

function count(page, state, jobs)
  page[state] = page[state] + jobs
  page.changed = true
end

-- The units that a key (u) or a limited task (v) has in use.
function in_use(page, kind, name)
  local used = page.in_use[kind][name]
  if not used then
    used = tonumber(call('HGET', T .. ':' .. kind .. ':' .. page.queue, name) or '0')
    page.in_use[kind][name] = used
  end
  return used
end

-- Reads at once what `in_use` will be asked for. Names that are false are passed over.
function look_up_use(page, kind, names)
  local unknown, known, n = {}, page.in_use[kind], 0
  for i = 1, #names do
    local name = names[i]
    if name and not known[name] then
      n = n + 1
      unknown[n], known[name] = name, 0
    end
  end
  for at = 1, #unknown, MOST_ARGUMENTS do
    local last = math.min(at + MOST_ARGUMENTS - 1, #unknown)
    local found = call('HMGET', T .. ':' .. kind .. ':' .. page.queue, spread(unknown, at, last))
    for i = 1, #found do
      if found[i] then
        known[unknown[at + i - 1]] = tonumber(found[i])
      end
    end
  end
end

function use(page, kind, name, units)
  local known = page.in_use[kind]
  known[name] = (known[name] or in_use(page, kind, name)) + units
  page.moved[kind][name], page.changed = true, true
end

local function write_use(page, kind)
  if next(page.moved[kind]) == nil then
    return
  end
  local line, known, facts, gone = T .. ':' .. kind .. ':' .. page.queue, page.in_use[kind], {}, {}
  local n, m = 0, 0
  for name in pairs(page.moved[kind]) do
    local used = known[name]
    if used == 0 then
      gone[m + 1], m = name, m + 1
    else
      facts[n + 1], facts[n + 2], n = name, whole(used), n + 2
    end
  end
  if page.used == 0 then
    call('DEL', line) -- with the filler
    gone = NONE
  elseif n > 2 * FEW then
    call('HSET', line, FILLER, FILLER)
  end
  call_many('HSET', line, facts, 2)
  call_many('HDEL', line, gone, 1)
  page.moved[kind] = {}
end

-- Is any lane of the queue shut? Else nobody needs to know what would open one.
function has_shut_lanes(page)
  if page.shuts == nil then
    page.shuts = call('EXISTS', T .. ':z:' .. page.queue) == 1
  end
  return page.shuts
end

-- Units of capacity are taken, or given back.
function burden(page, units)
  page.used = page.used + units
  page.changed = true
  if units < 0 and (page.shares_room or page.counts_keys and has_shut_lanes(page)) then
    page.eased = true
  end
end

-- The same for those of a key.
function burden_key(page, key, units)
  if units == 0 or not page.by_key then
    return
  end
  if has_shut_lanes(page) then
    page.opened[key] = true
  end
  if page.counts_keys then
    use(page, 'u', key, units)
  end
end

-- The same for many jobs that hold so much each; keys that are false are passed over.
function burden_keys(page, keys, units)
  if page.counts_keys then
    look_up_use(page, 'u', keys)
    local known, moved = page.in_use.u, page.moved.u
    for i = 1, #keys do
      local key = keys[i]
      if key then
        known[key], moved[key] = known[key] + units, true
      end
    end
  end
  if page.by_key and has_shut_lanes(page) then
    for i = 1, #keys do
      if keys[i] then
        page.opened[keys[i]] = true
      end
    end
  end
end

-- The units that a queue and those within it have in use.
function in_use_within(queue)
  local page = known_page(queue)
  local units, members = page and page.used or 0, call('HGETALL', T .. ':i:' .. queue)
  for i = 1, #members, 2 do
    local member = pages[members[i]]
    units = units + (member and member.used or tonumber(members[i + 1]))
  end
  return units
end

local COUNTERS = {
  [0] = '0', '1', '2', '3', '4', '5', used = 'u', laned = 'n', clock = 't', opening = 'w',
}

local function write_page(page)
  local facts, n = {}, 0
  if page.within and page.used ~= page.written.used then
    call('HSET', T .. ':i:' .. page.within, page.queue, whole(page.used))
  end
  for counter, field in pairs(COUNTERS) do
    if page[counter] ~= page.written[counter] then
      facts[n + 1], facts[n + 2], n = field, whole(page[counter]), n + 2
      page.written[counter] = page[counter]
    end
  end
  if page.rank and page.rank ~= page.written.rank then
    facts[n + 1], facts[n + 2], n = 'b', page.rank, n + 2
    page.written.rank = page.rank
  end
  if n > 0 then
    call('HSET', T .. ':q:' .. page.queue, spread(facts))
  end
  write_use(page, 'u')
  write_use(page, 'v')
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

function close_books()
  for _, page in pairs(pages) do
    if page.changed then
      write_page(page)
    end
  end
end
