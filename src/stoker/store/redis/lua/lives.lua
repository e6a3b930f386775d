-- A life: what has happened to a job since it was born. A job to which nothing has happened yet has
-- none. The facts are at fixed places, so that reading and changing one takes no decoding:
--
--    1-4  revision       21  state       31-34  attempt       59-66  until
--    5-12 token          22  flags       35-42  started_at    67-74  progress
--   13-20 session     23-30  ended_at    43-58  family        75-    rarer facts, never looked into
--
-- The family are the numbers of open, finished, failed and cancelled children. A fact that is not
-- there is 255 eight times (token, session) or 128 and seven zeros (moments).

GUARD_END = 12
WAITS_FOR_CHILDREN = 2 -- of the flags
NOBODY = rep('\255', 8)
NEVER = '\128' .. rep('\0', 7)
local NO_PROGRESS = rep('\0', 8)
BORN = rep('\0', 4) .. NOBODY .. NOBODY .. '\0\0' .. NEVER .. rep('\0', 4) .. NEVER
  .. rep('\0', 16) .. NEVER .. NO_PROGRESS

local RUNNING = 1
WAITING = 2

-- The lives of these jobs; false for those that are gone.
function lives_of(numbers)
  local lives, newborn = fetch('l', numbers), {}
  for i = 1, #numbers do
    if not lives[i] then
      newborn[#newborn + 1] = i
    end
  end
  if #newborn == 0 then
    return lives
  end
  local asked = {}
  for i = 1, #newborn do
    asked[i] = numbers[newborn[i]]
  end
  local bodies = fetch('j', asked)
  for i = 1, #newborn do
    lives[newborn[i]] = bodies[i] and BORN
  end
  return lives
end

-- What starting does to a life; kernel.rules.start says it first.
function started(life, token, session, lease_end)
  local revision, attempt = unpack_struct('>I4', life), unpack_struct('>I4', life, 31)
  return pack('>I4', revision + 1) .. token .. session .. char(RUNNING) .. '\0'
    .. sub(life, 23, 30) .. pack('>I4', attempt + 1) .. pack('>i8', NOW) .. sub(life, 43, 58)
    .. lease_end .. NO_PROGRESS .. sub(life, 75)
end

function touched(life, lease_end, progress)
  return sub(life, 1, 58) .. (lease_end or sub(life, 59, 66)) .. (progress or sub(life, 67, 74))
    .. sub(life, 75)
end

-- A child has ended; returns also whether the job now waits in vain.
function told(life, ended)
  local revision = unpack_struct('>I4', life)
  local open, finished, failed, cancelled = unpack_struct('>i4I4I4I4', life, 43)
  local family = pack('>i4I4I4I4', open - 1, finished + (ended == 3 and 1 or 0),
    failed + (ended == 4 and 1 or 0), cancelled + (ended == 5 and 1 or 0))
  local waits = byte(life, 22) % 4 >= WAITS_FOR_CHILDREN
  return pack('>I4', revision + 1) .. sub(life, 5, 42) .. family .. sub(life, 59),
    waits and open == 1
end

function state_of(life)
  return byte(life, 21)
end

function hexadecimal(session)
  return string.format(rep('%02x', 8), byte(session, 1, 8))
end

-- Jobs as they are told: the moment, then number, body, life or nil, one after the other.
function shown(numbers)
  local bodies, lives, jobs = fetch('j', numbers), fetch('l', numbers), {moment()}
  for i = 1, #numbers do
    if bodies[i] then
      jobs[#jobs + 1], jobs[#jobs + 2], jobs[#jobs + 3] = numbers[i], bodies[i], lives[i]
    end
  end
  return jobs
end
