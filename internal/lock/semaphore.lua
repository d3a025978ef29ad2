-- What the scripts of both semaphores share; common.lua is before it.
-- LOCK is a hash: "total", the permits that there are, and "held", those that somebody has. One that was never set
-- has no key. What is free is the difference, which is negative if the total has shrunk below what is held.
-- What a waiter wants is a number of permits, and nobody gets in before those who came earlier.
local WINDOW = 64 -- so many of the queue may get in at a time, so that a script looks at no more
local MOST = 2 ^ 50 -- permits; MaxPermits in Go

-- The total, or nil if it was never set, and what is held.
local function state()
  local got = redis.call('HMGET', LOCK, 'total', 'held')
  return tonumber(got[1]), tonumber(got[2]) or 0
end

local function create(total)
  redis.call('HSET', LOCK, 'total', int(total), 'held', 0)
end

-- Whether permits may come back, with nobody to wake the first of the queue, before it asks by itself.
local function soon() return false end

local function hold(held)
  redis.call('HSET', LOCK, 'held', int(held))
end

-- Wakes those in the queue who can get in, and the first one also if it should find out when it can. Whatever lets
-- somebody in, or changes who is first, calls it.
local function admit(free)
  for place, waiter in ipairs(living(math.max(1, math.min(free, WINDOW)))) do
    free = free - waiter.wants
    if free < 0 then
      if place == 1 and soon() then wake(waiter.id) end
      return
    end
    wake(waiter.id)
  end
end

-- Whether n permits are free for ID when all who came earlier have theirs.
local function turn(free, n)
  if free < n then return false end
  local line = living(math.min(free, WINDOW))
  for _, waiter in ipairs(line) do
    if waiter.id == ID then return true end
    free = free - waiter.wants
    if free < n then return false end
  end
  return #line < WINDOW -- else there are more before ID
end

-- What follows when ID got in and so many are left. Those who can get in were woken when they became able to, but
-- for those beyond the window, and for a new first one, who has a moment of its own.
local function admitted(free)
  if MODE ~= 'wait' then return end
  forget(ID)
  if free >= WINDOW or soon() then admit(free) end
end

-- The answer of an acquire of n that failed; if ID is the first, it may get in after ms without being woken.
-- The others may when the first is dead.
local function refuse(n, ms)
  local first = living(1)[1]
  if first and first.id ~= ID then ms = first.deadline - now() / 1000 end
  return deny(ms, int(n))
end

