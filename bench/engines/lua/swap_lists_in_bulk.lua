-- As swap_lists.lua, but all leases of a batch are given, and ended, in one command.

local queue, leases = KEYS[1], KEYS[2]

if #ARGV > 3 then
  redis.call('ZREM', leases, unpack(ARGV, 4))
end
local held, scored = {}, {}
if ARGV[1] ~= '0' then
  for place, job in ipairs(redis.call('LPOP', queue, ARGV[1]) or {}) do
    held[place] = ARGV[3] .. ':' .. job
    scored[2 * place - 1] = ARGV[2]
    scored[2 * place] = held[place]
  end
end
if #held > 0 then
  redis.call('ZADD', leases, unpack(scored))
end
return held
