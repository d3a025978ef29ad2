-- Reads the count of a latch.
-- KEYS[1]  lock: hash (see latch_acquire.lua); KEYS[2], KEYS[3] not used
-- ARGV     those of common.lua, not used
-- Returns the count, 0 if the latch has none.
return tonumber(redis.call('HGET', LOCK, 'count')) or 0
