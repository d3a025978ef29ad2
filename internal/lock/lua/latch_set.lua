-- Sets the count of a latch that has none. request.lua precedes this script.
-- KEYS[1]  lock; KEYS[2], KEYS[3] not used; KEYS[4] done (see request.lua)
-- ARGV[1]  not used; ARGV[2] id of the request, the new generation; ARGV[3], ARGV[4] not used; ARGV[5] count
-- Returns 1: set.
-- Returns 0: the latch has a count already.
if redis.call('EXISTS', LOCK) == 1 then return remember(0) end
redis.call('HSET', LOCK, 'count', ARGV[5], 'generation', ID)
return remember(1)
