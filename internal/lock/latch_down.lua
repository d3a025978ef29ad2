-- Takes one from a latch's count, and at zero removes it and wakes all who wait. Returns 1, or 0 if it has no count.
if redis.call('EXISTS', LOCK) == 0 then return answer(0) end
if redis.call('HINCRBY', LOCK, 'count', -1) <= 0 then
  redis.call('DEL', LOCK)
  for _, waiter in ipairs(living(redis.call('ZCARD', QUEUE))) do wake(waiter.id) end
end
return answer(1)
