-- Moving in: whose partition this is, and whether the caller may do all it will have to do.

-- Everything that the other functions call, on a key of no meaning. A call that the caller may not
-- make would otherwise be noticed halfway.
local function try_everything()
  local hash, set, list, text = T .. ':try:h', T .. ':try:s', T .. ':try:z', T .. ':try:t'
  call('HSET', hash, 'a', 'b')
  call('HGET', hash, 'a')
  call('HMGET', hash, 'a')
  call('HKEYS', hash)
  call('HGETALL', hash)
  call('HDEL', hash, 'a')
  call('ZADD', list, 0, 'a')
  call('ZRANGE', list, 0, -1)
  call('ZRANGEBYLEX', list, '-', '+')
  call('ZREVRANGEBYLEX', list, '+', '-')
  call('ZRANGEBYSCORE', list, 0, 0)
  call('ZSCORE', list, 'a')
  call('ZMSCORE', list, 'a')
  call('ZREMRANGEBYSCORE', list, 1, 1)
  call('ZREMRANGEBYLEX', list, '(b', '[b')
  call('ZREM', list, 'a')
  call('SADD', set, 'a')
  call('SMEMBERS', set)
  call('SMISMEMBER', set, 'a')
  call('SREM', set, 'a')
  call('INCRBY', text, 1)
  call('SET', text, 'a', 'PX', 1000)
  call('GET', text)
  call('GETRANGE', text, 0, 0)
  call('PEXPIRE', text, 1000)
  call('EXISTS', text)
  call('DEL', text)
  call('SPUBLISH', T .. ':bell', encode({}))
end

-- args: moment, layout, number of partitions. Returns the moment, the layout and the number of
-- partitions that are written down here, and whether they were written just now.
local function settle_in(keys, args)
  begin(keys, args)
  try_everything()
  local name = T .. ':meta'
  local is_new = call('HSETNX', name, 'layout', args[2])
  call('HSETNX', name, 'partitions', args[3])
  return {moment(), call('HGET', name, 'layout'), call('HGET', name, 'partitions'), is_new}
end

exports.settle_in = settle_in
