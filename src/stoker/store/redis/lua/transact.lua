-- transact: Changes, then Claims, in one step.
--
-- args: moment, request, payloads and bodies of new jobs ...
-- request: slot of the caller, serial number of its call, highest number it has seen given out,
-- the seal it knows of or '', steps, claims.
-- Returns the moment, what became of the steps (commit.lua), and of the claims (claim.lua). If the
-- store has a seal the caller does not know of, nothing is done but to tell it. Whoever knows it
-- sends only what may be done all the same; no job is given out.
--
-- The last answer for each slot is remembered for a minute. So a call whose answer was lost can
-- be made again: it has no second effect and gets the same answer. A call that arrives after a
-- later one of its slot comes too late, and nobody waits for it any more.

local REMEMBERED = 60000
local SEAL = 'stoker:seal'
local EACH, RINGS = 1, 10 -- of a step

local function grant_again(numbers, token)
  numbers = split(numbers, NUMBER)
  local lives, ours, own_lives = fetch('l', numbers), {}, {}
  for i, life in ipairs(lives) do
    if life and sub(life, 5, 12) == token then
      ours[#ours + 1], own_lives[#own_lives + 1] = numbers[i], life
    end
  end
  return {concat(ours), own_lives[1] or '', fetch('j', ours), told_lives(own_lives)}
end

local function answer_again(slot, request)
  local served = call('GETRANGE', slot, 0, 7)
  local serial = served ~= '' and unpack_struct('>I8', served) or 0
  if serial < request[2] then
    return nil
  end
  if serial > request[2] then
    return redis.error_reply('LATE a later call of the same caller has been served')
  end
  local results, granted = spread(decode(call('GETRANGE', slot, 8, -1)))
  local grants = {}
  for i, numbers in ipairs(granted) do
    grants[i] = numbers and grant_again(numbers, request[6][i][3])
  end
  call('PEXPIRE', slot, REMEMBERED)
  return {moment(), results, grants}
end

local function remember(slot, serial, results, grants)
  local granted = {}
  for i, grant in ipairs(grants) do
    granted[i] = grant and grant[1]
  end
  call('SET', slot, pack('>I8', serial) .. encode({results, granted}), 'PX', REMEMBERED)
end

local function add_members(names, queue)
  names[#names + 1] = queue
  for _, member in ipairs(call('HKEYS', T .. ':i:' .. queue)) do
    names[#names + 1] = member
  end
end

-- Where room was made there is also room for those within, and where they share it with others.
local function ring(names)
  for queue, page in pairs(pages) do
    if page.eased then
      add_members(names, queue)
      if page.within then
        add_members(names, page.within)
      end
    end
  end
  if #names > 0 then
    call('SPUBLISH', T .. ':bell', encode(names))
  end
end

local function transact(keys, args)
  begin(keys, args)
  pages = {}
  local request = decode(args[2])
  local slot = T .. ':a:' .. request[1]
  local known = answer_again(slot, request)
  if known then
    return known
  end
  local seal = call('HGET', T .. ':notes', SEAL)
  if seal and sub(seal, 13) ~= request[4] then
    return {moment(), sub(seal, 13)}
  end
  local results, grants, rings = {}, {}, {}
  for i, step in ipairs(request[5]) do
    results[i] = commit(step, args, request[3])
    if step[EACH] or results[i][1] == 1 then
      for _, name in ipairs(step[RINGS]) do
        rings[#rings + 1] = name
      end
    end
  end
  settle_lanes()
  for i, claim in ipairs(request[6]) do
    grants[i] = seal and {'', '', {}, {}} or serve(claim)
  end
  close_books()
  ring(rings)
  remember(slot, request[2], results, grants)
  return {moment(), results, grants}
end

exports.transact = transact
