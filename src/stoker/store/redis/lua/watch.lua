-- What the night watch looks for: jobs that nobody looks after any more.
--
-- All take the moment and a limit, and return jobs as they are told, in the order of their numbers.

local function first_of(numbers, limit)
  table.sort(numbers)
  local first = {}
  for i = 1, math.min(#numbers, limit) do
    first[i] = numbers[i]
  end
  return shown(first)
end

local function gather(numbers, more)
  for _, number in ipairs(more) do
    numbers[#numbers + 1] = number
  end
end

-- Running jobs whose session is dead or whose lease ran out, and waits that ran out.
local function lost(keys, args)
  begin(keys, args)
  local now, limit = moment(), args[2]
  local numbers = call('ZRANGEBYSCORE', T .. ':until', '-inf', now, 'LIMIT', 0, limit)
  for _, session in ipairs(call('SMEMBERS', T .. ':holders')) do
    local dead = session ~= '' and not is_alive(session)
    gather(numbers, call('ZRANGEBYSCORE', T .. ':s:' .. session, '-inf', dead and '+inf' or now,
      'LIMIT', 0, limit))
  end
  return first_of(numbers, tonumber(limit))
end

-- Whether a parent leaves its held children waiting in vain, or may let them start by now.
local function parts_with_children(number)
  local life = lives_of({number})[1]
  return not life or state_of(life) > WAITING or byte(life, 22) % 4 >= WAITS_FOR_CHILDREN
end

-- Parents with nothing left to wait for, and held children whose parent no longer runs.
local function adrift(keys, args)
  begin(keys, args)
  local limit = tonumber(args[2])
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
  return first_of(numbers, limit)
end

-- Ended jobs that have been kept long enough.
local function forgettable(keys, args)
  begin(keys, args)
  local numbers = call('ZRANGEBYSCORE', T .. ':kept', '-inf', moment(), 'LIMIT', 0, args[2])
  return first_of(numbers, tonumber(args[2]))
end

exports.lost, exports.adrift, exports.forgettable = lost, adrift, forgettable
