-- Ends whatever ID has of a semaphore: the permits that it got without hearing of it, the place in the queue.
-- KEYS[4]  done  as in semaphore_acquire.lua
-- ARGV[5]  permits
-- Returns 1 if it had permits, else 0.
local DONE, n = KEYS[4], tonumber(ARGV[5])
local total, held = state()
local taken = redis.call('GET', DONE) == 'taken' and held >= n -- fewer are held if LOCK was deleted meanwhile
redis.call('SET', DONE, 'undone', 'PX', 30000)
forget(ID)
if taken then
  held = held - n
  hold(held)
end
if total then admit(total - held) end
return taken and 1 or 0
