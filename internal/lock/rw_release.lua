-- Ends whatever ID has of the lock: the hold, be it for writing or for reading, and the place in the queue. Returns
-- 1 if it had a hold, else 0.
local wrote, had_read = has(LOCK), has(READERS)
write()
read()
forget(ID)
if had_read and latest(READERS) then
  tell() -- one reader less among others lets nobody in
else
  admit() -- also for a place: it may have been a writer's, before readers, or one that was woken in vain
end
return (wrote or had_read) and 1 or 0
