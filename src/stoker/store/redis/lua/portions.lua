-- Portions: the members of a line, read some at a time, no more than are wanted.
--
-- need: how many are wanted at most, and how many to read first. A portion is twice the one before
-- it, so that little is read in vain and much in few calls. What is read can be made into something
-- else: `note` is given the members, and how many bytes stand before an order in them.

STEP = 32 -- to read first, where it is not known how many will do
local MOST_AT_ONCE = 128

-- read(from, size): some members, and where to go on, or false if there are no more.
local function in_portions(read, from, need, note, skip)
  local shown, at, step = NONE, 0, need.step
  return function()
    at = at + 1
    while not shown[at] and from do
      local found
      found, from = read(from, math.max(math.min(step, need.wanted), 1))
      shown, at = note and #found > 0 and note(found, skip) or found, 1
      step = math.min(2 * step, MOST_AT_ONCE)
    end
    return shown[at]
  end
end

-- The members of a line that begin alike, from one bound to another.
function members_between(name, prefix, from, to, need, note)
  to = '[' .. prefix .. to .. HIGH
  local function read(start, size)
    local found = call('ZRANGEBYLEX', name, start, to, 'LIMIT', 0, size)
    return found, #found == size and '(' .. found[size]
  end
  return in_portions(read, '[' .. prefix .. from, need, note, #prefix)
end

-- The due ones of some members, and where a rank begins behind the first that is not due.
local function due_among(found, skip)
  for i = 1, #found do
    if sub(found[i], skip + 9, skip + 16) > NOW8 then
      return {spread(found, 1, i - 1)}, '(' .. sub(found[i], 1, skip + 8) .. HIGH
    end
  end
  return found
end

-- The due members of a line, in its order. A member begins with an order.
function due_members(page, name, prefix, need, note)
  if page.time_first then
    return members_between(name, prefix, '', NOW8, need, note)
  end
  local to = prefix == '' and '+' or '[' .. prefix .. HIGH
  local function read(from, size)
    local found = call('ZRANGEBYLEX', name, from, to, 'LIMIT', 0, size)
    local due, next_rank = due_among(found, #prefix)
    return due, next_rank or (#found == size and '(' .. found[size])
  end
  return in_portions(read, '[' .. prefix, need, note, #prefix)
end

-- The due members of a line as one or more lines in the queue's order.
function lines_in(page, name, prefix, need, note)
  if not page.ageing then
    return {due_members(page, name, prefix, need, note)}
  end
  local lines, from, to = {}, '[' .. prefix, prefix == '' and '+' or '[' .. prefix .. HIGH
  while true do
    local first = call('ZRANGEBYLEX', name, from, to, 'LIMIT', 0, 1)[1]
    if not first then
      return lines
    end
    local rank = sub(first, #prefix + 1, #prefix + 8)
    lines[#lines + 1] = members_between(name, prefix, rank, rank .. NOW8, need, note)
    from = '(' .. prefix .. rank .. HIGH
  end
end
