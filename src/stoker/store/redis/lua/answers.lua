-- What was answered: the last answer for each slot, of which a caller has one, for a minute.
--
-- So a call whose answer was lost can be made again: it has no second effect and gets the same
-- answer. A call that arrives after a later one of its slot comes too late, and nobody waits for it
-- any more. T:a:<slot> is the serial number of the call in eight bytes, and what was answered.

local REMEMBERED = '60000'

local function slot_of(caller)
  return T .. ':a:' .. caller
end

-- What was answered to a call that was served; or nil, and if it comes too late what it is told.
function answered(caller, serial)
  local slot = slot_of(caller)
  local served = call('GETRANGE', slot, 0, 7)
  local last = served ~= '' and unpack_struct('>I8', served) or 0
  if last < serial then
    return nil
  end
  if last > serial then
    return nil, redis.error_reply('LATE a later call of the same caller has been served')
  end
  call('PEXPIRE', slot, REMEMBERED)
  return call('GETRANGE', slot, 8, -1)
end

function remember(caller, serial, answer)
  call('SET', slot_of(caller), pack('>I8', serial) .. answer, 'PX', REMEMBERED)
end

-- Both for a call that is nearly always the first of its number: if it was served nothing changes.
function answered_or_remember(caller, serial, answer)
  local slot = slot_of(caller)
  local last = call('SET', slot, pack('>I8', serial) .. answer, 'PX', REMEMBERED, 'GET')
  if last and unpack_struct('>I8', last) >= serial then
    call('SET', slot, last, 'PX', REMEMBERED)
    return answered(caller, serial)
  end
end
