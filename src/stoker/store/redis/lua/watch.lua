-- What the night watch looks for: jobs that nobody looks after any more.
--
-- Each search takes a limit, and returns at least so many numbers if there are so many, in no order.

local function gather(numbers, more)
  for _, number in ipairs(more) do
    numbers[#numbers + 1] = number
  end
end

-- Running jobs whose session is dead or whose lease ran out, and waits that ran out.
local function lost(limit)
  local now = moment()
  local numbers = call('ZRANGEBYSCORE', T .. ':until', '-inf', now, 'LIMIT', 0, limit)
  for _, session in ipairs(call('SMEMBERS', T .. ':holders')) do
    local dead = session ~= '' and not is_alive(session)
    gather(numbers, call('ZRANGEBYSCORE', T .. ':s:' .. session, '-inf', dead and '+inf' or now,
      'LIMIT', 0, limit))
  end
  return numbers
end

-- Whether a parent leaves its held children waiting in vain, or may let them start by now.
local function parts_with_children(number)
  local life = lives_of({number})[1]
  return not life or state_of(life) > WAITING or byte(life, 22) % 4 >= WAITS_FOR_CHILDREN
end

-- Parents with nothing left to wait for, and held children whose parent no longer runs.
local function adrift(limit)
  local numbers = call('ZRANGEBYLEX', T .. ':childless', '-', '+', 'LIMIT', 0, limit)
  local from, found = '-', 0
  while found < limit do
    local member = call('ZRANGEBYLEX', T .. ':held', from, '+', 'LIMIT', 0, 1)[1]
    if not member then
      break
    end
    local parent = sub(member, 1, NUMBER)
    if parts_with_children(parent) then
      local members = call('ZRANGEBYLEX', T .. ':held', '[' .. parent, '[' .. parent .. HIGH,
        'LIMIT', 0, limit)
      for _, each in ipairs(members) do
        numbers[#numbers + 1] = sub(each, NUMBER + 1)
      end
      found = found + #members
    end
    from = '(' .. parent .. HIGH
  end
  return numbers
end

-- Ended jobs that have been kept long enough.
local function forgettable(limit)
  return call('ZRANGEBYSCORE', T .. ':kept', '-inf', moment(), 'LIMIT', 0, limit)
end

-- Sessions whose time is up, and which nobody has retired.
local function has_dead_sessions()
  for _, session in ipairs(call('HVALS', T .. ':sessions')) do
    if unpack_struct('>i8', session) <= NOW then
      return true
    end
  end
  return false
end

local function is_troubled()
  return has_dead_sessions() or #lost(1) > 0 or #adrift(1) > 0 or #forgettable(1) > 0
end

-- A search as it is called. args: moment, limit. Returns jobs as they are told, in the order of
-- their numbers.
local function answering(search)
  return function(keys, args)
    begin(keys, args)
    local limit = tonumber(args[2])
    local numbers, first = search(limit), {}
    table.sort(numbers)
    for i = 1, math.min(#numbers, limit) do
      first[i] = numbers[i]
    end
    return shown(first)
  end
end

-- args: moment. Returns the moment, and whether there is anything to see to.
local function troubled(keys, args)
  begin(keys, args)
  return {moment(), is_troubled() and 1 or 0}
end

exports.lost, exports.adrift = answering(lost), answering(adrift)
exports.forgettable = answering(forgettable)
exports.troubled, exports.is_troubled = troubled, is_troubled
