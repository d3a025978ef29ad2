-- Ends whatever ID has of a mutex or a fair lock: the hold, the place in the queue. Returns 1 if it had the hold, else 0,
-- or leaves the lock to an heir. If there is none, the first in the queue is woken, also if ID had no more than a place
-- there: it may have been woken in vain.
local holder = redis.call('GET', LOCK)
if holder ~= ID then -- who holds it is not in the queue
  forget(ID)
  if holder then return 0 end
end
local held = holder and 1 or 0
local heir = take_heir()
if heir then
  LEASE = tonumber(heir.wants)
  redis.call('SET', LOCK, heir.id, 'PX', LEASE)
  tell_end(LEASE)
  return {held, heir.id, fence()}
end
if holder then redis.call('DEL', LOCK) end
wake_next()
return held
