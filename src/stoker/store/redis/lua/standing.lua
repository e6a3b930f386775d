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
    if page and wish then
      call('HSET', T .. ':q:' .. queue, 'e', wish)
    elseif page and page.stander and decode(page.stander)[5] == claim[5] then
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

local function is_anybody_due(page)
  return page[0] > 0 and due_members(page, page.line, '', {wanted = 1, step = 1})()
end

-- Takes a new job in as one that runs for whoever left the claim; false if it cannot be.
function start_at_once(left, queue, number, body)
  pages = {}
  local page, claim = known_page(queue), decode(left)
  if page.paused or page.limited or page.laned > 0 or is_anybody_due(page) then
    return false
  end
  call('HDEL', T .. ':q:' .. queue, 'e')
  if not is_alive(claim[5]) or not is_heard(claim) then
    return false
  end
  put_new({number}, {body})
  count(page, RUNNING, 1)
  local taken = {count = 1, numbers = {number}, pages = {page}, tasks = {}, bodies = {body}}
  local _, lives = start(claim, taken)
  close_books()
  tell_errand(claim, number, lives[1], body)
  return true
end
