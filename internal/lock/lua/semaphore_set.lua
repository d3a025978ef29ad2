-- Sets the number of permits, once. request.lua precedes this script.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; a leased semaphore's KEYS[4] holders; KEYS[last] done (see
--          request.lua)
-- ARGV[1]  wake prefix; ARGV[2] id of the request; ARGV[3], ARGV[4] not used; ARGV[5] number of permits
-- Returns 1: set.
-- Returns 0: the number was set before.
if redis.call('EXISTS', LOCK) == 1 then return remember(0) end
create_counters(tonumber(ARGV[5]))
wake_admissible(tonumber(ARGV[5]))
return remember(1)
