-- transact: Changes, then Claims, in one step.
--
-- args: moment, request, payloads and bodies of new jobs ...
-- request: slot of the caller, serial number of its call, highest number it has seen given out,
-- the seal it knows of or '', steps, claims.
-- Returns the moment, what became of the steps (commit.lua), and of the claims (claim.lua). If the
-- store has a seal the caller does not know of, nothing is done but to tell it. Whoever knows it
-- sends only what may be done all the same; no job is given out.

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

local function answer_again(known, claims)
  local results, granted = spread(decode(known))
  local grants = {}
  for i, numbers in ipairs(granted) do
    grants[i] = numbers and grant_again(numbers, claims[i][3])
  end
  return {moment(), results, grants}
end

local function remember_all(request, results, grants)
  local granted = {}
  for i, grant in ipairs(grants) do
    granted[i] = grant and grant[1]
  end
  remember(request[1], request[2], encode({results, granted}))
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
  local known, too_late = answered(request[1], request[2])
  if known or too_late then
    return too_late or answer_again(known, request[6])
  end
  local seal = seal_on()
  if seal and seal ~= request[4] then
    return {moment(), seal}
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
    grants[i] = (seal or claim[2] == 0) and {'', '', {}, {}} or serve(claim)
    if claim[5] ~= '' then
      leave_standing(claim, grants[i])
    end
  end
  close_books()
  ring(rings)
  remember_all(request, results, grants)
  return {moment(), results, grants}
end

exports.transact = transact
