-- Returns the count of a latch, 0 if it has none.
return tonumber(redis.call('HGET', LOCK, 'count')) or 0
