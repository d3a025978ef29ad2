-- Ends everything that ID has of a semaphore: permits whose grant the caller did not receive, and the place in the
-- queue.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] done (see semaphore_acquire.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3], ARGV[4] not used; ARGV[5] number of permits
-- Returns 1: ID had permits.
-- Returns 0: it had none.
write_at_memory_limit()
local DONE, n = KEYS[4], tonumber(ARGV[5])
local total, held = read_counters()
local taken = redis.call('GET', DONE) == 'taken' and held >= n -- fewer are held if LOCK was deleted since
redis.call('SET', DONE, 'undone', 'PX', 30000)
dequeue(ID)
if taken then
  held = held - n
  set_held(held)
end
if total then wake_admissible(total - held) end
return taken and 1 or 0
