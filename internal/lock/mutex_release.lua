-- Ends whatever ID has of a mutex or a fair lock: the hold, the place in the queue. Returns 1 if it had the hold,
-- else 0. A place that is given up may have been woken in vain, so the next one is.
local holder = redis.call('GET', LOCK)
if holder == ID then redis.call('DEL', LOCK) end
forget(ID)
if not holder or holder == ID then wake_next() end
return holder == ID and 1 or 0
