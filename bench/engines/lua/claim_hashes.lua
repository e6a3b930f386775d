-- Take the foremost jobs.
-- KEYS: the ready ones, the leases (a sorted set of ids by the end of their lease)
-- ARGV: how many, when their leases end, the token of the leases

local claimed = {}
local ready = redis.call('ZPOPMIN', KEYS[1], ARGV[1])
for place = 1, #ready, 2 do
  local id = ready[place]
  redis.call('HSET', 'job:' .. id, 'token', ARGV[3])
  redis.call('ZADD', KEYS[2], ARGV[2], id)
  claimed[#claimed + 1] = { id, redis.call('HGET', 'job:' .. id, 'payload') }
end
return claimed
