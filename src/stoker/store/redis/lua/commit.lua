-- Committing Changes, each whole or not at all.
--
-- A step is what the client made of one Change, or of a run of Changes:
--   each     a run of Changes with one job each: those that are stale are left out one by one
--   moves    groups of written jobs        drops   groups of deleted jobs
--   touches  signs of life: number, token, until or nil, progress or nil
--   inserts  groups of new jobs            tallies parent's number, state of the ended child
--   queues   settings, see settings.lua
--   notes    key, value or nil, until or nil, expect or nil, revision if it is a copy
--   names    newcomers with the names they want, and names that are given up, or nil
--
-- A group of jobs that are alike:
--   numbers  of all of them                guard   revision and token they must have
--   before, after   where they stand       fixed, until, progress, rest   their new lives
--   head, payload   of a single job, if they change
-- A group of new jobs:
--   count, or their numbers if they have them already      stand   where they stand
--   places   one for each, or nil          head    before each payload, or nil
--   first    the argument with the first payload or body   life    or nil
-- Where a job stands says stands.lua.

local EACH, MOVES, DROPS, TOUCHES, INSERTS, TALLIES, QUEUES, NOTES, NAMES = 1, 2, 3, 4, 5, 6, 7, 8, 9
local NUMBERS, GUARD, BEFORE, AFTER, FIXED, UNTIL, PROGRESS, REST, HEAD, PAYLOAD
  = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local COUNT, STAND, PLACES, NEW_HEAD, FIRST, LIFE = 1, 2, 3, 4, 5, 6

-- -- guards ---------------------------------------------------------------------------------

-- Of what is told for each job of a group only what is told of those that are left.
local function of_those(unmoved, told)
  if type(told) ~= 'table' then
    return told
  end
  local left = {}
  for i, at in ipairs(unmoved) do
    left[i] = told[at]
  end
  return left
end

local function keep_unmoved(group)
  local unmoved = {}
  for i, number in ipairs(group.numbers) do
    unmoved[#unmoved + 1] = number and i or nil
  end
  group.numbers, group.lives = of_those(unmoved, group.numbers), of_those(unmoved, group.lives)
  group[REST] = of_those(unmoved, group[REST])
  for _, stand in ipairs({group[BEFORE], group[AFTER]}) do
    stand[KEY] = of_those(unmoved, stand[KEY])
  end
end

-- Reads a group's jobs; tells which of them have moved on.
local function look_up(group, stale)
  local numbers = split(group[NUMBERS], NUMBER)
  local lives, guard = lives_of(numbers), group[GUARD]
  local moved, last, unmoved = false, nil, nil
  for i = 1, #numbers do
    local life = lives[i]
    if life ~= last then
      last, unmoved = life, life and sub(life, 1, GUARD_END) == guard
    end
    if not unmoved then
      stale[#stale + 1] = numbers[i]
      numbers[i], moved = false, true
    end
  end
  group.numbers, group.lives = numbers, lives
  if moved then
    keep_unmoved(group)
  end
end

function note_revision(key)
  local note = call('HGET', T .. ':notes', key)
  if not note then
    return 0
  end
  local revision, till = unpack_struct('>I4i8', note)
  return (sub(note, 5, 12) == NEVER or till > NOW) and revision or 0
end

-- The seal of the store, if it has one.
function seal_on()
  local note = call('HGET', T .. ':notes', 'stoker:seal')
  return note and sub(note, 13)
end

local function moved_on(step)
  local stale, stale_notes = {}, {}
  for _, group in ipairs(step[MOVES]) do
    look_up(group, stale)
  end
  for _, group in ipairs(step[DROPS]) do
    look_up(group, stale)
  end
  for _, touch in ipairs(step[TOUCHES]) do
    touch.life = fetch('l', {touch[1]})[1]
    if not touch.life or sub(touch.life, 5, 12) ~= touch[2] then
      stale[#stale + 1] = touch[1]
    end
  end
  for _, note in ipairs(step[NOTES]) do
    if note[4] and note[4] ~= note_revision(note[1]) then
      stale_notes[#stale_notes + 1] = note[1]
    end
  end
  return stale, stale_notes
end

-- names: newcomers {place among the jobs, number or '', bucket, name, ...}, freed {bucket, name,
-- number, ...}. Names that the Change itself sets free may be taken by it.
local function find_twins(names)
  local twins, taken, freed = {}, {}, {}
  for i = 1, #names[2], 3 do
    freed[names[2][i + 1]] = names[2][i + 2]
  end
  for _, newcomer in ipairs(names[1]) do
    local own, twin = newcomer[2], nil
    for i = 3, #newcomer, 2 do
      local name = newcomer[i + 1]
      local holder = taken[name]
      if not holder then
        holder = call('HGET', T .. ':n:' .. newcomer[i], name)
        holder = holder and holder ~= own and holder ~= freed[name] and holder
      end
      twin = twin or holder
    end
    if twin then
      twins[#twins + 1], twins[#twins + 2] = newcomer[1], twin
    else
      for i = 3, #newcomer, 2 do
        taken[newcomer[i + 1]] = own
      end
    end
  end
  return twins
end

local function is_live(page)
  return page[0] + page[1] + page[2] > 0
end

-- The page of the queue whose jobs must not live in this partition, if the step would let some in,
-- or would leave some here.
local function misplaced(step)
  for _, settings in ipairs(step[QUEUES]) do
    if settings[8] and is_live(page_of(settings[1])) then
      return page_of(settings[1])
    end
  end
  for _, part in ipairs({MOVES, INSERTS}) do
    for _, group in ipairs(step[part]) do
      local stand = part == MOVES and group[AFTER] or group[STAND]
      local page = stand[STATE] <= WAITING and known_page(stand[QUEUE])
      if page and page.away then
        return page
      end
    end
  end
end

-- -- carrying it out ------------------------------------------------------------------------

local function drop_group(group)
  leave(group.numbers, group[BEFORE])
  drop(group.numbers)
end

local function rewrite_body(number, head, payload)
  local body = fetch('j', {number})[1]
  local length = 4 + unpack_struct('>I4', body) % 16777216
  put('j', {number}, {(head or sub(body, 1, length)) .. (payload or sub(body, length + 1))})
end

local function move_group(group)
  local numbers, lives, news = group.numbers, group.lives, {}
  local fixed, lease_end, progress, rest = group[FIXED], group[UNTIL], group[PROGRESS], group[REST]
  local own_rest = type(rest) == 'table'
  leave(numbers, group[BEFORE])
  local last, new
  for i = 1, #numbers do
    local life = lives[i]
    if life ~= last or own_rest then
      last = life
      new = fixed .. (lease_end or sub(life, 59, 66)) .. (progress or sub(life, 67, 74))
        .. (own_rest and rest[i] or rest)
    end
    news[i] = new
  end
  put('l', numbers, news)
  if group[HEAD] or group[PAYLOAD] then
    rewrite_body(numbers[1], group[HEAD], group[PAYLOAD])
  end
  enter(numbers, group[AFTER])
end

local function touch_job(touch)
  put('l', {touch[1]}, {touched(touch.life, touch[3], touch[4])})
  if touch[3] then
    local session = sub(touch.life, 13, 20)
    local name = T .. ':s:' .. (session == NOBODY and '' or hexadecimal(session))
    call('ZADD', name, touch[3] == NEVER and 'inf' or unpack_struct('>i8', touch[3]), touch[1])
  end
end

-- Numbers for so many new jobs. After a failover the server may have forgotten some that were
-- given out: a client that remembers has them skipped.
function take_numbers(jobs, seen)
  local last = call('INCRBY', T .. ':id', jobs)
  if last - jobs < seen then
    last = seen + jobs
    call('SET', T .. ':id', whole(last))
  end
  return last - jobs + 1
end

-- Jobs that bring their numbers with them: no new one may get the same.
local function own_numbers(blob)
  local numbers = split(blob, NUMBER)
  local last = tonumber(call('GET', T .. ':id') or '0')
  for _, number in ipairs(numbers) do
    last = math.max(last, (unpack_struct('>I6', number)))
  end
  call('SET', T .. ':id', whole(last))
  return numbers
end

local function numbered(group, first)
  if type(group[COUNT]) == 'string' then
    return own_numbers(group[COUNT])
  end
  local numbers = {}
  for i = 1, group[COUNT] do
    numbers[i] = pack('>I6', first + i - 1)
  end
  return numbers
end

local function insert_group(group, numbers, args)
  local bodies, head, first = {}, group[NEW_HEAD], group[FIRST]
  for i = 1, #numbers do
    bodies[i] = head and head .. args[first + i] or args[first + i]
  end
  put_new(numbers, bodies)
  if group[LIFE] then
    local lives = {}
    for i = 1, #numbers do
      lives[i] = group[LIFE]
    end
    put('l', numbers, lives)
  end
  enter(numbers, group[STAND], group[PLACES])
end

-- Returns the first of the numbers given; 0 if none were.
local function insert_all(groups, args, seen)
  local fresh, first = 0, 0
  for _, group in ipairs(groups) do
    fresh = fresh + (type(group[COUNT]) == 'number' and group[COUNT] or 0)
  end
  if fresh > 0 then
    first = take_numbers(fresh, seen)
  end
  local next_number = first
  for _, group in ipairs(groups) do
    local numbers = numbered(group, next_number)
    next_number = next_number + #numbers
    insert_group(group, numbers, args)
  end
  return first
end

local function hand_over_names(names, first)
  for i = 1, #names[2], 3 do
    call('HDEL', T .. ':n:' .. names[2][i], names[2][i + 1])
  end
  for _, newcomer in ipairs(names[1]) do
    local number = newcomer[2] ~= '' and newcomer[2] or pack('>I6', first + newcomer[1])
    for i = 3, #newcomer, 2 do
      call('HSET', T .. ':n:' .. newcomer[i], newcomer[i + 1], number)
    end
  end
end

-- Tells parents that a child has ended; returns those that were told, as they are now.
local function tell(tallies)
  local order, lives = {}, {}
  for _, tally in ipairs(tallies) do
    local number = tally[1]
    local life = lives[number] or lives_of({number})[1]
    if life then
      local in_vain
      if not lives[number] then
        order[#order + 1] = number
      end
      lives[number], in_vain = told(life, tally[2])
      put('l', {number}, {lives[number]})
      if in_vain then
        call('ZADD', T .. ':childless', 0, number)
      end
    end
  end
  local parents = {}
  for i, number in ipairs(order) do
    parents[3 * i - 2], parents[3 * i - 1] = number, fetch('j', {number})[1]
    parents[3 * i] = lives[number]
  end
  return parents
end

local function put_note(note)
  local key, value, till = note[1], note[2], note[3]
  if not value then
    call('HDEL', T .. ':notes', key)
    call('ZREM', T .. ':fading', key)
    return
  end
  local revision = note[5] or note_revision(key) + 1
  call('HSET', T .. ':notes', key, pack('>I4', revision) .. (till or NEVER) .. value)
  if till then
    call('ZADD', T .. ':fading', unpack_struct('>i8', till), key)
  else
    call('ZREM', T .. ':fading', key)
  end
end

local function for_groups(groups, act)
  for _, group in ipairs(groups) do
    if #group.numbers > 0 then
      act(group)
    end
  end
end

local function apply(step, args, seen)
  for _, settings in ipairs(step[QUEUES]) do
    configure(settings)
  end
  for_groups(step[DROPS], drop_group)
  for_groups(step[MOVES], move_group)
  for _, touch in ipairs(step[TOUCHES]) do
    touch_job(touch)
  end
  local first = insert_all(step[INSERTS], args, seen)
  if step[NAMES] then
    hand_over_names(step[NAMES], first)
  end
  local parents = tell(step[TALLIES])
  for _, note in ipairs(step[NOTES]) do
    put_note(note)
  end
  close_ranks()
  return {1, first, parents}
end

-- Returns {1, first number given, parents told}, {0, numbers of stale jobs, keys of stale notes,
-- twins: place, number of the other, ...}, or {2, queue whose jobs live in another partition, queue
-- by whose name they do}; with `each` the stale are no reason to refuse the rest.
function commit(step, args, seen)
  local stale, stale_notes = moved_on(step)
  local elsewhere = misplaced(step)
  if elsewhere then
    return {2, elsewhere.queue, elsewhere.within or elsewhere.queue}
  end
  if step[EACH] then
    apply(step, args, seen)
    return {0, concat(stale), {}, {}}
  end
  if #stale > 0 or #stale_notes > 0 then
    return {0, concat(stale), stale_notes, {}}
  end
  local twins = step[NAMES] and find_twins(step[NAMES]) or {}
  if #twins > 0 then
    return {0, '', {}, twins}
  end
  return apply(step, args, seen)
end
