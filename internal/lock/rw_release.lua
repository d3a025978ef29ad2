-- Ends whatever ID has of the lock: the hold, be it for writing or for reading, and the place in the queue. Returns
-- 1 if it had a hold, else 0.
local wrote, had_read = has(LOCK), has(READERS)
write()
read()
forget(ID)
-- One reader less among others lets nobody in. A place that is given up may: it may have been a writer's, in whose
-- way readers were, or one that was woken in vain.
if not (had_read and latest(READERS)) then admit() end
return (wrote or had_read) and 1 or 0
