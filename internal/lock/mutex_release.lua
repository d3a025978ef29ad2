-- Ends whatever ID has of a mutex or a fair lock: the hold, the place in the queue. Returns 1 if it had the hold, else 0;
-- or, if the first in the queue is a waiter of the same client, who hears of it by this answer, and the lock is his from
-- now on: {1 or 0, his id, his token}. Any other first in the queue is woken, also if ID had no more than a place there:
-- it may have been woken in vain.
local holder = redis.call('GET', LOCK)
if holder ~= ID then -- who holds it is not in the queue
  forget(ID)
  if holder then return 0 end
end
local held = holder and 1 or 0
local heir = living(1)[1]
if heir and client(heir.id) == client(ID) then
  LEASE = tonumber(heir.wants)
  redis.call('SET', LOCK, heir.id, 'PX', LEASE)
  forget(heir.id)
  tell_end(LEASE)
  return {held, heir.id, fence()}
end
if holder then redis.call('DEL', LOCK) end
wake_next()
return held
