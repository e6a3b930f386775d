-- Looking at jobs, queues and notes without changing anything.

local AT_ONCE = 32

-- args: moment, numbers. Returns those of the jobs that are there.
local function get(keys, args)
  begin(keys, args)
  return shown(split(args[2], NUMBER))
end

-- args: moment, index, what stands before the numbers there, the number behind which to begin or
-- '', 1 for the newest first, limit. Returns the moment and numbers.
local function list(keys, args)
  begin(keys, args)
  local name, before, after, newest, limit = T .. ':' .. args[2], args[3], args[4], args[5], args[6]
  local low, high = '[' .. before, '[' .. before .. HIGH
  local command, from, to = 'ZRANGEBYLEX', low, high
  if newest == '1' then
    command, from, to = 'ZREVRANGEBYLEX', high, low
  end
  if after ~= '' then
    from = '(' .. before .. after
  end
  local numbers = {}
  for i, member in ipairs(call(command, name, from, to, 'LIMIT', 0, limit)) do
    numbers[i] = sub(member, -NUMBER)
  end
  return {moment(), concat(numbers)}
end

-- args: moment, session in hexadecimal or * for all. Returns the moment and the numbers of the
-- jobs they hold.
local function held(keys, args)
  begin(keys, args)
  local sessions = args[2] == '*' and call('SMEMBERS', T .. ':holders') or {args[2]}
  local numbers = {}
  for _, session in ipairs(sessions) do
    numbers[#numbers + 1] = concat(call('ZRANGE', T .. ':s:' .. session, 0, -1))
  end
  return {moment(), concat(numbers)}
end

-- args: moment, bucket, name, bucket, name ... Returns the moment, and for each name the number of
-- the job that has it, or ''.
local function named(keys, args)
  begin(keys, args)
  local numbers = {moment()}
  for i = 2, #args, 2 do
    numbers[#numbers + 1] = call('HGET', T .. ':n:' .. args[i], args[i + 1]) or ''
  end
  return numbers
end

-- args: moment, number behind which to begin or '', 1 for the newest first, limit, states as bytes
-- or '' for all, queue as it stands in a head or '' for all. Looks at a few hundred jobs; returns
-- the number up to which it looked, or '' if there are no more, and the jobs that may be meant.
local function scan(keys, args)
  begin(keys, args)
  local after, newest, limit, states, queue = args[2], args[3] == '1', tonumber(args[4]), args[5], args[6]
  local home = newest and '+' or '-'
  if after ~= '' then
    local is_last = sub(after, NUMBER) == (newest and '\0' or '\255')
    home = (is_last and '(' or '[') .. sub(after, 1, 5)
  end
  local homes = newest and call('ZREVRANGEBYLEX', T .. ':b', home, '-', 'LIMIT', 0, 4)
    or call('ZRANGEBYLEX', T .. ':b', home, '+', 'LIMIT', 0, 4)
  local jobs, seen = {moment(), ''}, 0
  for _, each in ipairs(homes) do
    local numbers = call('HKEYS', shelf('j', each))
    table.sort(numbers, function(a, b)
      if newest then
        return a > b
      end
      return a < b
    end)
    local bodies, lives = fetch('j', numbers), fetch('l', numbers)
    for i, number in ipairs(numbers) do
      local beyond = after == '' or (newest and number < after) or (not newest and number > after)
      local state = lives[i] and sub(lives[i], 21, 21) or '\0'
      if beyond and (states == '' or string.find(states, state, 1, true))
        and (queue == '' or sub(bodies[i], 6, 5 + #queue) == queue) then
        jobs[#jobs + 1], jobs[#jobs + 2], jobs[#jobs + 3] = number, bodies[i], lives[i]
        seen = seen + 1
      end
      if seen == limit then
        jobs[2] = number
        return jobs
      end
    end
    jobs[2] = each .. (newest and '\0' or '\255')
  end
  if #homes < 4 then
    jobs[2] = ''
  end
  return jobs
end

-- The foremost that are told, by what the queue sorts them, behind a place.
local function selection(page, after, limit)
  local chosen, seen, last = {}, {}, nil
  local function cut()
    table.sort(chosen, function(a, b)
      return a[1] < b[1]
    end)
    for i = #chosen, limit + 1, -1 do
      chosen[i] = nil
    end
    last = chosen[limit] and chosen[limit][1]
  end
  -- Returns false if nobody behind this one, in the same order, can be among them.
  local function consider(order)
    local rating = rating_of(page, order)
    if last and rating >= last then
      return page.ageing
    end
    if rating > after and not seen[order] then
      chosen[#chosen + 1], seen[order] = {rating, sub(order, 17)}, true
    end
    if #chosen >= 2 * limit then
      cut()
    end
    return true
  end
  return consider, function()
    cut()
    local numbers = {}
    for i = 1, #chosen do
      numbers[i] = chosen[i][2]
    end
    return numbers
  end
end

-- Goes along a line in which members that begin alike stand in the order of the queue, and leaps over
-- those who are not due, or stand too far back. begins(member): how many bytes stand before the order.
local function go_along(page, name, from, begins, consider)
  while from do
    local found = call('ZRANGEBYLEX', name, from, '+', 'LIMIT', 0, AT_ONCE)
    from = #found == AT_ONCE and '(' .. found[AT_ONCE]
    for _, member in ipairs(found) do
      local skip = begins(member)
      local order = sub(member, skip + 1, skip + 22)
      local is_due, leap = due_of(page, order) <= NOW8, nil
      if not is_due then
        leap = sub(member, 1, page.time_first and skip or skip + 8)
      elseif not consider(order) then
        leap = sub(member, 1, skip)
      end
      if leap then
        from = '(' .. leap .. HIGH
        break
      end
    end
  end
end

-- args: moment, queue, a place (rank, due time, number) or '', limit. Returns the moment and the due
-- jobs behind the place, in the order of the queue. Lanes are looked at one by one.
local function in_line(keys, args)
  begin(keys, args)
  pages = {}
  local page, place, limit = known_page(args[2]), args[3], tonumber(args[4])
  if not page or page[0] == 0 then
    return {moment()}
  end
  local behind = place ~= '' and order_of(page, sub(place, 1, 16), sub(place, 17)) or ''
  local after = behind ~= '' and rating_of(page, behind) or ''
  local consider, numbers = selection(page, after, limit)
  local from = (page.ageing or behind == '') and '-' or '(' .. behind
  local function at_once()
    return 0
  end
  go_along(page, page.line, from, at_once, consider)
  if page.laned > 0 then
    go_along(page, page.free_line, from, at_once, consider)
    go_along(page, page.lane_line, '-', function(member)
      return #member - 22
    end, consider)
    local before = page.head_size - 22
    go_along(page, page.head_line, '-', function()
      return before
    end, consider)
    go_along(page, T .. ':g:' .. page.queue, '-', function(member)
      return 4 + unpack_struct('>I4', member) + before
    end, consider)
  end
  local foremost, jobs = numbers(), {moment()}
  local bodies, lives = fetch_scattered('j', foremost), fetch_scattered('l', foremost)
  for i, number in ipairs(foremost) do
    jobs[3 * i - 1], jobs[3 * i], jobs[3 * i + 1] = number, bodies[i], lives[i]
  end
  return jobs
end

-- args: moment, index of names, the name from which on to look, limit. Returns moment and names.
local function names(keys, args)
  begin(keys, args)
  local found = call('ZRANGEBYLEX', T .. ':' .. args[2], args[3], '+', 'LIMIT', 0, args[4])
  return {moment(), found}
end

-- args: moment, queues ... Returns the moment, and for each queue that is there its name,
-- settings, units in use and counts.
local function survey(keys, args)
  begin(keys, args)
  local views = {moment()}
  for i = 2, #args do
    local facts = call('HMGET', T .. ':q:' .. args[i], 's', 'u', '0', '1', '2', '3', '4', '5')
    if facts[1] then
      views[#views + 1] = args[i]
      for j = 1, 8 do
        views[#views + 1] = facts[j] or '0'
      end
    end
  end
  return views
end

local function lesser(one, other)
  return one and (not other or one < other) and one or other
end

-- The first moment after this one at which something in a line falls due.
local function first_due(page, name, prefix, after, least)
  local function first(from, to)
    return call('ZRANGEBYLEX', name, from, '[' .. prefix .. to .. HIGH, 'LIMIT', 0, 1)[1]
  end
  local at = #prefix
  if page.time_first then
    local found = first('(' .. prefix .. after .. HIGH, HIGH)
    return lesser(found and sub(found, at + 1, at + 8), least)
  end
  local from = '[' .. prefix
  while true do
    local found = first(from, HIGH)
    if not found then
      return least
    end
    local rank, due = sub(found, at + 1, at + 8), sub(found, at + 9, at + 16)
    if due <= after then
      local later = first('(' .. prefix .. rank .. after .. HIGH, rank)
      due = later and sub(later, at + 9, at + 16)
    end
    least = lesser(due, least)
    from = '(' .. prefix .. rank .. HIGH
  end
end

-- The same for lanes, which sleep until then if there is nothing due in them or their rate says so.
local function first_waking(page, after, least)
  if not page.fair then
    least = first_due(page, T .. ':h:' .. page.queue, '', after, least)
    for _, task in ipairs(page.tasks) do
      local line, prefix = line_of_heads(page, task)
      least = first_due(page, line, prefix, after, least)
    end
  end
  if page.dozes then
    local found = call('ZRANGEBYSCORE', T .. ':d:' .. page.queue, '(' .. whole(unsorted(after)),
      '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    least = lesser(found[2] and sortable(tonumber(found[2])), least)
  end
  return least
end

-- args: moment, the moment after which to look (or '' for now), queues ... Returns the moment and
-- the one at which the next job falls due or may be let in, in sortable form, or ''.
local function next_due(keys, args)
  begin(keys, args)
  pages = {}
  local after, least = args[2] == '' and NOW8 or args[2], nil
  for i = 3, #args do
    local page = known_page(args[i])
    if page and page[0] > 0 then
      least = first_due(page, T .. ':r:' .. page.queue, '', after, least)
      if page.laned > 0 then
        least = first_due(page, T .. ':f:' .. page.queue, '', after, least)
        least = first_waking(page, after, least)
      end
      local opening = sortable(page.opening)
      least = lesser(opening > after and opening, least)
    end
  end
  return {moment(), least or ''}
end

-- args: moment, queue, meters ... Returns the moment, and what is remembered for each, or ''.
local function flows(keys, args)
  begin(keys, args)
  local found = {moment()}
  for i = 3, #args do
    found[i - 1] = call('GET', flow_name(args[2], args[i])) or ''
  end
  return found
end

-- args: moment, keys ... (none: all). Returns the moment, and key and note of those that are there.
local function notes(keys, args)
  begin(keys, args)
  local found = {moment()}
  local asked = {spread(args, 2)}
  if #asked == 0 then
    asked = call('HKEYS', T .. ':notes')
  end
  for _, key in ipairs(asked) do
    local note = call('HGET', T .. ':notes', key)
    if note and note_revision(key) > 0 then
      found[#found + 1], found[#found + 2] = key, note
    end
  end
  return found
end

exports.get, exports.list, exports.held, exports.named = get, list, held, named
exports.scan, exports.names, exports.survey = scan, names, survey
exports.in_line = in_line
exports.next_due, exports.flows, exports.notes = next_due, flows, notes
