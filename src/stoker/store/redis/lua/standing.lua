-- Claims that stand: of those who found nothing and are willing to wait, a queue knows the last one
-- (e in its hash, a claim without queues). A new job that nobody is ahead of starts for that one. Its
-- worker listens on a channel of its own, which shows whether it lives.

local LONGEST_BODY = 65536 -- to be sent along

-- Whoever claims stands no more, or again.
function leave_standing(claim, grant)
  local wish = claim[7] and grant and grant[1] == ''
    and encode({0, 1, claim[3], claim[4], claim[5], claim[6] or false, claim[7]})
  for _, queue in ipairs(claim[1]) do
    local page = known_page(queue)
    if page and wish and page.stander ~= wish then
      call('HSET', T .. ':q:' .. queue, 'e', wish)
    elseif page and not wish and page.stander and decode(page.stander)[5] == claim[5] then
      call('HDEL', T .. ':q:' .. queue, 'e')
    end
  end
end

-- Sends a job to whoever left the claim: its number, the length of its life, the life, and the body.
-- False if nobody listens there. What is sent leaves the server when all the rest is done.
local function is_heard(claim, number, life, body)
  local told = #body <= LONGEST_BODY and body or ''
  local errand = number .. pack('>I4', #life) .. life .. told
  return call('SPUBLISH', T .. ':bell:' .. claim[7], errand) > 0
end

local function is_anybody_due(queue, time_first)
  local page, need = {time_first = time_first}, {wanted = 1, step = 1}
  return due_members(page, T .. ':r:' .. queue, '', need)()
end

-- Takes a new job in as one that runs for whoever left the claim; false if it cannot be. Of the queue,
-- which has no limit but perhaps a capacity, are known how many are queued, and by `said` from the
-- eighth on the fields e, p, c, n, 1 and u.
function start_at_once(queue, said, time_first, queued, number, body)
  local _, paused, capacity, laned, running, used = spread(said, 8, 13)
  if paused == '1' or capacity or (laned or '0') ~= '0'
    or queued > 0 and is_anybody_due(queue, time_first) then
    return false
  end
  local claim, name, leases = decode(said[8]), T .. ':q:' .. queue, {}
  call('HDEL', name, 'e')
  local special = byte(body) ~= 0 and head_of(body)
  local life = lease(claim, leases, number, BORN, special)
  if not is_alive(claim[5]) or not is_heard(claim, number, life, body) then
    return false
  end
  put_new({number}, {body})
  put('l', {number}, {life})
  note_leases(leases)
  local weight = special and special[8] or WHOLE_WEIGHT
  call('HSET', name, '1', tonumber(running or '0') + 1, 'u', whole(tonumber(used or '0') + weight))
  return true
end
