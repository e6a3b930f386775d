-- The ground on which all functions stand: the partition, the moment, and where jobs are kept.
--
-- Every function takes one key, the tag of a partition, as in {stoker.0}. All keys of the
-- partition begin with it, so that they share a slot of a cluster. The first argument is the
-- moment in microseconds; if it is empty the server's clock rules.
--
-- A job's number (its id without the partition) is written as six bytes, the highest first, so that
-- numbers sort as they count. 256 jobs share a hash, which keeps every key small.

local byte, char, sub, rep, concat = string.byte, string.char, string.sub, string.rep, table.concat
local pack, unpack_struct, spread = struct.pack, struct.unpack, unpack
local encode, decode = cmsgpack.pack, cmsgpack.unpack

-- All that stands in a line, and every moment, is compared as text. Lua does that by the server's
-- locale, and the rules of a language would put jobs into any order.
for code = 1, 255 do
  if char(code - 1) >= char(code) then
    error('text is not compared byte by byte', 0)
  end
end

local NUMBER = 6
local WHOLE_WEIGHT = 1000
local MOST_ARGUMENTS = 1000
local HIGH = rep('\255', 22) -- behind whatever begins alike

-- Set anew for every call, all but the moment by `come_to`, all by `begin`. What is written in many
-- places is made only once.
local call, T, NOW, NOW8, lengths, sortables, numbers_of, wholes

-- A whole number as eight bytes that sort as numbers do, negative ones first.
local function sortable(number)
  local text = sortables[number]
  if not text then
    local bytes = pack('>i8', number)
    text = char((byte(bytes) + 128) % 256) .. sub(bytes, 2)
    sortables[number] = text
  end
  return text
end

-- The number that `sortable` wrote.
local function unsorted(bytes)
  local number = numbers_of[bytes]
  if not number then
    number = unpack_struct('>i8', char((byte(bytes) + 128) % 256) .. sub(bytes, 2))
    numbers_of[bytes] = number
  end
  return number
end

local function come_to(keys)
  call, T, lengths, sortables, numbers_of, wholes = redis.call, keys[1], {}, {}, {}, {}
end

local function go_by(given)
  if given == '' then
    local time = call('TIME')
    NOW = time[1] * 1000000 + time[2]
  else
    NOW = tonumber(given)
  end
  NOW8 = sortable(NOW)
end

local function begin(keys, args)
  come_to(keys)
  go_by(args[1])
end

-- A whole number as text.
local function whole(number)
  local text = wholes[number]
  if not text then
    text = string.format('%.0f', number)
    wholes[number] = text
  end
  return text
end

local function moment()
  return whole(NOW)
end

local function split(blob, width)
  local parts = {}
  for at = 1, #blob, width do
    parts[#parts + 1] = sub(blob, at, at + width - 1)
  end
  return parts
end

-- The same command with many arguments, as often as their number asks for.
local function call_many(command, key, values, width)
  local most = MOST_ARGUMENTS - MOST_ARGUMENTS % width
  for at = 1, #values, most do
    call(command, key, spread(values, at, math.min(at + most - 1, #values)))
  end
end

-- The hash of a job, of kind j (bodies) or l (lives), by the first five bytes of its number.
local function shelf(kind, home)
  local a, b, c, d, e = byte(home, 1, 5)
  return T .. ':' .. kind .. ':' .. ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e)
end

-- Calls act(home, first, last) for each run of numbers that share a hash.
local function by_home(numbers, act)
  local first, count = 1, #numbers
  while first <= count do
    local home, last = sub(numbers[first], 1, 5), first
    while last < count and sub(numbers[last + 1], 1, 5) == home do
      last = last + 1
    end
    act(home, first, last)
    first = last + 1
  end
end

-- What is kept of these jobs, false for those of which there is nothing.
local function fetch(kind, numbers)
  local found = {}
  by_home(numbers, function(home, first, last)
    local values = call('HMGET', shelf(kind, home), spread(numbers, first, last))
    for i = 1, #values do
      found[first + i - 1] = values[i]
    end
  end)
  return found
end

-- What a body says before its payload.
local function head_of(body)
  return decode(sub(body, 5, 4 + unpack_struct('>I4', body) % 16777216))
end

local function weight_of(body)
  return byte(body) == 0 and WHOLE_WEIGHT or head_of(body)[8]
end

local function put(kind, numbers, values)
  by_home(numbers, function(home, first, last)
    local pairs_of, n = {}, 0
    for i = first, last do
      pairs_of[n + 1], pairs_of[n + 2] = numbers[i], values[i]
      n = n + 2
    end
    call('HSET', shelf(kind, home), spread(pairs_of))
  end)
end

-- Jobs that start together may be in no order of numbers. These do the same as `fetch` and `put`,
-- and look into each hash only once.

local function is_sorted(numbers)
  for i = 2, #numbers do
    if numbers[i] < numbers[i - 1] then
      return false
    end
  end
  return true
end

local function in_order(numbers)
  local sorted = {}
  for i = 1, #numbers do
    sorted[i] = numbers[i]
  end
  table.sort(sorted)
  return sorted
end

local function fetch_scattered(kind, numbers)
  local sorted, found, by_number = in_order(numbers), {}, {}
  local values = fetch(kind, sorted)
  for i = 1, #sorted do
    by_number[sorted[i]] = values[i]
  end
  for i = 1, #numbers do
    found[i] = by_number[numbers[i]]
  end
  return found
end

local function put_scattered(kind, numbers, values)
  local sorted, by_number, again = in_order(numbers), {}, {}
  for i = 1, #numbers do
    by_number[numbers[i]] = values[i]
  end
  for i = 1, #sorted do
    again[i] = by_number[sorted[i]]
  end
  put(kind, sorted, again)
end

local function put_new(numbers, bodies)
  put('j', numbers, bodies)
  by_home(numbers, function(home)
    call('ZADD', T .. ':b', 0, home)
  end)
end

local function drop(numbers)
  by_home(numbers, function(home, first, last)
    call('HDEL', shelf('l', home), spread(numbers, first, last))
    call('HDEL', shelf('j', home), spread(numbers, first, last))
    if call('EXISTS', shelf('j', home)) == 0 then
      call('ZREM', T .. ':b', home)
    end
  end)
end

-- A heap of tables that are ordered by their first value.

local function push(heap, item)
  local at = #heap + 1
  while at > 1 do
    local above = math.floor(at / 2)
    if heap[above][1] <= item[1] then
      break
    end
    heap[at], at = heap[above], above
  end
  heap[at] = item
end

local function pop(heap)
  local least, last = heap[1], #heap
  local item = heap[last]
  heap[last] = nil
  local at, size = 1, last - 1
  if size == 0 then
    return least
  end
  while true do
    local below = 2 * at
    if below < size and heap[below + 1][1] < heap[below][1] then
      below = below + 1
    end
    if below > size or item[1] <= heap[below][1] then
      break
    end
    heap[at], at = heap[below], below
  end
  heap[at] = item
  return least
end
