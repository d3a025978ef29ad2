-- Decrements a latch's count. At zero it removes the latch and wakes all waiters. request.lua precedes this script.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] done (see request.lua)
-- ARGV[1]  wake prefix; ARGV[2] id of the request; ARGV[3], ARGV[4] not used
-- Returns 1: decremented.
-- Returns 0: the latch has no count.
write_at_memory_limit()
if redis.call('EXISTS', LOCK) == 0 then return remember(0) end
if redis.call('HINCRBY', LOCK, 'count', -1) <= 0 then
  redis.call('DEL', LOCK)
  for _, waiter in ipairs(live_waiters(redis.call('ZCARD', QUEUE))) do wake(waiter.id) end
end
return remember(1)
