-- End the jobs held and take the next ones, each under a lease of its own.
-- KEYS: the queue (a list of jobs), the leases (a sorted set of held jobs by the end of the lease)
-- ARGV: how many to take, when their leases end, their token, the jobs held with their tokens

local queue, leases = KEYS[1], KEYS[2]

for place = 4, #ARGV do
  redis.call('ZREM', leases, ARGV[place])
end
local held = {}
if ARGV[1] ~= '0' then
  for place, job in ipairs(redis.call('LPOP', queue, ARGV[1]) or {}) do
    held[place] = ARGV[3] .. ':' .. job
    redis.call('ZADD', leases, ARGV[2], held[place])
  end
end
return held
