-- Rates: what has started under one, as of this moment. The arithmetic is that of kernel.rate.
--
-- A rate is an amount in thousandths, a period, 1 if its periods are fixed, and a burst if it is a
-- bucket. T:m:<queue's length>:<queue><meter> is what is remembered, for a while longer than it
-- counts: 0, when the bucket is full and when something started last; or the length of a slice of
-- time, the number of the last one, and what started in it and in those before. A meter is '', = and
-- a key, or ~ and a task.

local SLICES = 16
local MARGIN = 60000
local SLOWEST = 100 * 366 * 86400 * 1000000

local function time_to_fill(flow, weight)
  return math.min(math.ceil(weight / flow.each * flow.period), SLOWEST)
end

local function slices(rate, numbers)
  local fixed = rate[3] == 1
  local length = fixed and rate[2] or math.ceil(rate[2] / SLICES)
  local flow = {limit = rate[1], length = length, kept = fixed and 1 or SLICES + 1, used = 0}
  local this = math.floor(NOW / length)
  if numbers[1] ~= length or numbers[2] > this + flow.kept then
    numbers = {length, 0}
  end
  flow.index = math.max(this, numbers[2])
  local passed = math.min(flow.index - numbers[2], flow.kept)
  for at = 1, flow.kept do
    flow[at] = at > passed and numbers[2 + at - passed] or 0
    flow.used = flow.used + flow[at]
  end
  return flow
end

local function bucket(rate, numbers)
  local flow = {each = rate[1], period = rate[2]}
  flow.room = time_to_fill(flow, rate[4])
  if numbers[1] ~= 0 or numbers[#numbers] > NOW + flow.period then
    numbers = {0, NOW}
  end
  flow.full_at = math.max(numbers[2], NOW)
  return flow
end

function flow_name(queue, meter)
  return T .. ':m:' .. #queue .. ':' .. queue .. meter
end

function flow_of(queue, meter, rate)
  local name = flow_name(queue, meter)
  local kept = call('GET', name)
  local numbers = kept and decode(kept) or NONE
  local flow = rate[4] and bucket(rate, numbers) or slices(rate, numbers)
  flow.name = name
  return flow
end

-- When so much may start; nil: now.
function free_at(flow, weight)
  if flow.each then
    local at = math.min(flow.full_at, flow.full_at + time_to_fill(flow, weight) - flow.room)
    return at > NOW and at or nil
  end
  local used, at = flow.used, nil
  for age = flow.kept, 1, -1 do
    if used == 0 or used + weight <= flow.limit then
      break
    end
    if flow[age] > 0 then
      used, at = used - flow[age], (flow.index - age + 1 + flow.kept) * flow.length
    end
  end
  return at
end

function flow_on(flow, weight)
  flow.moved = true
  if flow.each then
    flow.full_at = flow.full_at + time_to_fill(flow, weight)
  else
    flow[1], flow.used = flow[1] + weight, flow.used + weight
  end
end

function remember_flow(flow)
  local numbers, till = {0, flow.full_at, NOW}, flow.full_at
  if not flow.each then
    numbers, till = {flow.length, flow.index, spread(flow, 1, flow.kept)}, nil
    till = (flow.index + flow.kept) * flow.length
  end
  local left = math.max(math.ceil((till - NOW) / 1000), 0)
  call('SET', flow.name, encode(numbers), 'PX', whole(left + MARGIN))
end
