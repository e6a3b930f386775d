-- place: one new job and nothing else, which is what most callers bring. `transact` would do the
-- same at four times the cost.
--
-- The job has a weight, no name of its own and no parent, and does not repeat. args: slot of the
-- caller, serial number of its call, highest number it has seen given out, queue, place, body, what
-- is rung. Returns the job's number; 0 if something is said about the store or the queue that is not
-- heeded here: then nothing was done.

local function place(keys, args)
  come_to(keys)
  local caller, serial, queue = args[1], tonumber(args[2]), args[4]
  local known, too_late = answered(caller, serial)
  if known or too_late then
    return too_late or unpack_struct('>I6', known)
  end
  local said = call('HMGET', T .. ':q:' .. queue, 's', 'o', 'k', 'x', 'a', 'y', '0')
  local is_plain = said[1] and not (said[3] or said[4] or said[5] or said[6])
  if not is_plain or seal_on() then
    return 0
  end
  local number = take_numbers(1, tonumber(args[3]))
  local written = pack('>I6', number)
  local order, home = args[5] .. written, sub(written, 1, 5)
  call('HSET', shelf('j', home), written, args[6])
  call('ZADD', T .. ':b', '0', home)
  call('ZADD', T .. ':r:' .. queue, '0', said[2] == '1' and turned(order) or order)
  local queued = tonumber(said[7] or '0')
  call('HSET', T .. ':q:' .. queue, '0', whole(queued + 1))
  if queued == 0 then
    call('ZADD', T .. ':lines', '0', queue)
  end
  call('SPUBLISH', T .. ':bell', args[7])
  remember(caller, serial, written)
  return number
end

exports.place = place
