-- Shared by the scripts of both semaphores; common.lua precedes it. LOCK is a hash: "total", the number of permits, and
-- "held", the number that is taken. It does not exist until the semaphore is set. total - held permits are free; the
-- difference is negative if the total was reduced below what is held. A waiter's entry wants a number of permits, and
-- no waiter is admitted before an earlier one.
local WINDOW = 64 -- the most waiters that are examined and admitted at a time, which bounds the work of a script
local MAX_PERMITS = 2 ^ 50 -- MaxPermits in Go

-- Returns the total, nil if the semaphore was never set, and the number of permits held.
local function read_counters()
  local got = redis.call('HMGET', LOCK, 'total', 'held')
  return tonumber(got[1]), tonumber(got[2]) or 0
end

local function create_counters(total)
  redis.call('HSET', LOCK, 'total', format_int(total), 'held', 0)
end

-- Returns whether permits may expire before the first waiter rechecks by itself. No release wakes a waiter then.
local function expires_soon() return false end

local function set_held(held)
  redis.call('HSET', LOCK, 'held', format_int(held))
end

-- Wakes the waiters that can be admitted now, and the first one even if it only has to learn when it can. To be called
-- after every change that admits a waiter or makes another one first.
local function wake_admissible(free)
  for place, waiter in ipairs(live_waiters(math.max(1, math.min(free, WINDOW)))) do
    free = free - waiter.wants
    if free < 0 then
      if place == 1 and expires_soon() then wake(waiter.id) end
      return
    end
    wake(waiter.id)
  end
end

-- Returns whether n permits are free for ID after all earlier waiters have received theirs.
local function may_take(free, n)
  if free < n then return false end
  local line = live_waiters(math.min(free, WINDOW))
  for _, waiter in ipairs(line) do
    if waiter.id == ID then return true end
    free = free - waiter.wants
    if free < n then return false end
  end
  return #line < WINDOW -- otherwise more waiters precede ID
end

-- Finishes an acquire of ID that leaves `free` permits. Admissible waiters were woken when that became possible,
-- except those beyond the window and a new first waiter, which has an expiry time of its own to learn.
local function after_acquire(free)
  if MODE ~= 'wait' then return end
  dequeue(ID)
  if free >= WINDOW or expires_soon() then wake_admissible(free) end
end

-- Builds the reply of an acquire of n permits that failed. If ID is first, it can be admitted after ms without a wake;
-- otherwise when the first waiter counts as dead.
local function refuse_permits(n, ms)
  local first = live_waiters(1)[1]
  if first and first.id ~= ID then ms = first.deadline - now_micros() / 1000 end
  return deny(ms, format_int(n))
end

