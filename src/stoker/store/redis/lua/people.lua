-- Workers' sessions, locks, and keeping the house tidy.
--
-- T:sessions is a hash: session in hexadecimal -> when it ends, when it began, and what it said of
-- itself. T:locks is a hash: name -> until and owner.

-- args: moment, session, ttl, what it says of itself
local function enrol(keys, args)
  begin(keys, args)
  local moments = pack('>i8i8', NOW + tonumber(args[3]), NOW)
  call('HSET', T .. ':sessions', args[2], moments .. args[4])
  return {moment()}
end

-- args: moment, session, ttl, session as eight bytes, 1 if it keeps watch. Returns the moment,
-- whether it lives, the numbers of the jobs it is to cancel, and whether the watch has work.
local function beat(keys, args)
  begin(keys, args)
  local session = is_alive(args[2])
  if not session then
    return {moment(), 0, '', 0}
  end
  local later = pack('>i8', NOW + tonumber(args[3]))
  call('HSET', T .. ':sessions', args[2], later .. sub(session, 9))
  local numbers = {}
  for i, member in ipairs(call('ZRANGEBYLEX', T .. ':x', '[' .. args[4], '[' .. args[4] .. HIGH)) do
    numbers[i] = sub(member, 9)
  end
  local troubled = args[5] == '1' and exports.is_troubled()
  return {moment(), 1, concat(numbers), troubled and 1 or 0}
end

-- args: moment, session
local function retire(keys, args)
  begin(keys, args)
  call('HDEL', T .. ':sessions', args[2])
  return {moment()}
end

-- args: moment. Returns the moment, and all sessions as they are kept.
local function sessions(keys, args)
  begin(keys, args)
  return {moment(), call('HGETALL', T .. ':sessions')}
end

-- args: moment, name, owner, ttl. Returns the moment and whether the lock is held now.
local function hold(keys, args)
  begin(keys, args)
  local lock = call('HGET', T .. ':locks', args[2])
  if lock and sub(lock, 9) ~= args[3] and unpack_struct('>i8', lock) > NOW then
    return {moment(), 0}
  end
  local ttl = tonumber(args[4])
  call('HSET', T .. ':locks', args[2], pack('>i8', ttl > 0 and NOW + ttl or 0) .. args[3])
  return {moment(), 1}
end

local function is_forgotten(queue)
  local facts = call('HMGET', T .. ':q:' .. queue, 's', '0', '1', '2', '3', '4', '5')
  for i = 2, 7 do
    if facts[i] and facts[i] ~= '0' then
      return false
    end
  end
  return facts[1] == '{}'
end

local function drop_old_notes(limit)
  local old = call('ZRANGEBYSCORE', T .. ':fading', '-inf', moment(), 'LIMIT', 0, limit)
  for _, key in ipairs(old) do
    call('HDEL', T .. ':notes', key)
    call('ZREM', T .. ':fading', key)
  end
end

local function drop_old_locks()
  local locks = call('HGETALL', T .. ':locks')
  for i = 1, #locks, 2 do
    if unpack_struct('>i8', locks[i + 1]) <= NOW then
      call('HDEL', T .. ':locks', locks[i])
    end
  end
end

local function drop_idle_holders()
  for _, session in ipairs(call('SMEMBERS', T .. ':holders')) do
    if call('EXISTS', T .. ':s:' .. session) == 0 then
      call('SREM', T .. ':holders', session)
    end
  end
end

-- args: moment, the bound from which on to look at queues, limit. Returns the moment and the bound
-- from which on to go on, or ''.
local function tidy(keys, args)
  begin(keys, args)
  local queues = call('ZRANGEBYLEX', T .. ':queues', args[2], '+', 'LIMIT', 0, args[3])
  for _, queue in ipairs(queues) do
    if is_forgotten(queue) then
      call('DEL', T .. ':q:' .. queue, T .. ':p:' .. queue)
      call('ZREM', T .. ':queues', queue)
    end
  end
  drop_old_notes(args[3])
  drop_old_locks()
  drop_idle_holders()
  return {moment(), #queues == tonumber(args[3]) and '(' .. queues[#queues] or ''}
end

exports.enrol, exports.beat, exports.retire = enrol, beat, retire
exports.sessions, exports.hold, exports.tidy = sessions, hold, tidy
