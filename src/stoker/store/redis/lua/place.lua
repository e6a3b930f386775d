-- place: one new job and nothing else, which is what most callers bring. `transact` would do the
-- same at four times the cost.
--
-- The job has a weight, no name of its own and no parent, and does not repeat. args: who and where,
-- queue, body. The first is 16 bytes for the slot of the caller, eight each for the serial number of
-- its call and the highest number it has seen given out, 16 for the job's place, and the moment, or
-- '-' if the job must not start at once. Returns the job's number, below zero if it has started for
-- somebody who waited for it (unless it is told again); 0 if something is said about the
-- store or the queue that is not heeded here: then nothing was done.

local function place(keys, args)
  come_to(keys)
  local who, queue = args[1], args[2]
  local caller, serial, seen = sub(who, 1, 16), unpack_struct('>I8I8', who, 17)
  local said = call('HMGET', T .. ':q:' .. queue, 's', 'o', 'k', 'x', 'a', 'y', '0',
    'e', 'p', 'c', 'n', '1', 'u')
  local is_plain = said[1] and not (said[3] or said[4] or said[5] or said[6])
  if not is_plain or seal_on() then
    local known, too_late = answered(caller, serial)
    return too_late or known and unpack_struct('>I6', known) or 0
  end
  local number = take_numbers(1, seen)
  local written = pack('>I6', number)
  local known, too_late = answered_or_remember(caller, serial, written)
  if known or too_late then
    take_numbers(-1, 0) -- it goes back
    return too_late or unpack_struct('>I6', known)
  end
  local given = sub(who, 49)
  if said[8] and given ~= '-' then
    go_by(given)
    if start_at_once(queue, said, said[2] == '1', tonumber(said[7] or '0'), written, args[3]) then
      return -number
    end
  end
  local order, home = sub(who, 33, 48) .. written, sub(written, 1, 5)
  call('HSET', shelf('j', home), written, args[3])
  call('ZADD', T .. ':b', '0', home)
  call('ZADD', T .. ':r:' .. queue, '0', said[2] == '1' and turned(order) or order)
  local queued = tonumber(said[7] or '0')
  call('HSET', T .. ':q:' .. queue, '0', queued + 1)
  if queued == 0 then
    call('ZADD', T .. ':lines', '0', queue)
  end
  call('SPUBLISH', T .. ':bell', encode({queue}))
  return number
end

exports.place = place
