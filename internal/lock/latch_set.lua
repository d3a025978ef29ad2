-- Sets the count of a latch that has none. ARGV[5] count. Returns 1, or 0 if it has one.
if redis.call('EXISTS', LOCK) == 1 then return answer(0) end
redis.call('HSET', LOCK, 'count', ARGV[5], 'generation', ID)
return answer(1)
