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

local function channel_of(claim)
  return T .. ':bell:' .. claim[7]
end

-- Whoever may not ask takes it that somebody listens.
local function is_heard(claim)
  local told = redis.pcall('PUBSUB', 'SHARDNUMSUB', channel_of(claim))
  return told.err or told[2] > 0
end

-- The number of a job, the length of its life, the life, and the body.
local function tell_errand(claim, number, life, body)
  local told = #body <= LONGEST_BODY and body or ''
  call('SPUBLISH', channel_of(claim), number .. pack('>I4', #life) .. life .. told)
end

local function is_anybody_due(queue, time_first)
  local page, need = {time_first = time_first}, {wanted = 1, step = 1}
  return due_members(page, T .. ':r:' .. queue, '', need)()
end

-- Takes a new job in as one that runs for whoever left the claim; false if it cannot be. Of the queue,
-- which has no limit but perhaps a capacity, facts are the fields e, p, c, n, 1 and u.
function start_at_once(queue, facts, time_first, queued, number, body)
  local left, paused, capacity, laned, running, used = spread(facts)
  if paused == '1' or capacity or (laned or '0') ~= '0'
    or queued > 0 and is_anybody_due(queue, time_first) then
    return false
  end
  local claim, name = decode(left), T .. ':q:' .. queue
  call('HDEL', name, 'e')
  if not is_alive(claim[5]) or not is_heard(claim) then
    return false
  end
  put_new({number}, {body})
  local page = {used = tonumber(used or '0')}
  local taken = {count = 1, numbers = {number}, pages = {page}, tasks = {}, bodies = {body}}
  local _, lives = start(claim, taken)
  call('HSET', name, '1', tonumber(running or '0') + 1, 'u', whole(page.used))
  tell_errand(claim, number, lives[1], body)
  return true
end
