-- Ends whatever ID has of the lock: the hold, the place in the queue. Returns 1 if it had the hold, else 0. A place
-- that is given up may have been woken in vain, so the next one is.
local had = held()
local kept = hold()
forget(ID)
if not kept then wake_next() end
return had and 1 or 0
