-- End jobs that are still held under the token.
-- KEYS: the leases
-- ARGV: the token, then the ids

for place = 2, #ARGV do
  local id = ARGV[place]
  if redis.call('HGET', 'job:' .. id, 'token') == ARGV[1] then
    redis.call('DEL', 'job:' .. id)
    redis.call('ZREM', KEYS[1], id)
  end
end
