-- Acquires permits of a semaphore, which stay taken until they are released.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters (see common.lua, semaphore.lua)
-- KEYS[4]  done: string, the outcome of ID, "taken" or "undone"; it expires after Go has stopped repeating the attempt
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] not used; ARGV[4] "wait" or "try"; ARGV[5] number of permits
-- Returns {1, 0}: granted.
-- Returns {0, ms, place}: not enough free permits, or an earlier waiter comes first, as in common.lua.
local DONE, n = KEYS[4], tonumber(ARGV[5])
local became = redis.call('GET', DONE)
if became == 'taken' then -- repeated after a lost reply
  dequeue(ID)
  return {1, 0}
end
if became then return {0, -1, 0} end -- its undo was executed first; the caller has left
local total, held = read_counters()
local free = (total or 0) - held
if not may_take(free, n) then return refuse_permits(n, -1) end
set_held(held + n)
redis.call('SET', DONE, 'taken', 'PX', 30000)
after_acquire(free - n)
return {1, 0}
