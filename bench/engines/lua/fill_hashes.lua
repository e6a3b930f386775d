-- Put jobs in.
-- KEYS: the ready ones (a sorted set of ids by the moment they are due), the last id given
-- ARGV: the moment, then the payloads

local last = redis.call('INCRBY', KEYS[2], #ARGV - 1)
local first = last - (#ARGV - 1)
for place = 2, #ARGV do
  local id = first + place - 1
  redis.call('HSET', 'job:' .. id, 'payload', ARGV[place])
  redis.call('ZADD', KEYS[1], ARGV[1], id)
end
