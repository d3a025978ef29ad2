-- Ends whatever ID has of the lock: the hold, be it for writing or for reading, and the place in the queue. Returns
-- 1 if it had a hold, else 0; or, if nobody has the lock now, leaves it to an heir who wants to write.
local wrote, had_read = has(LOCK), has(READERS)
local held = (wrote or had_read) and 1 or 0
write()
read()
forget(ID)
if had_read and latest(READERS) then
  tell() -- one reader less among others lets nobody in
  return held
end
local first = not latest(LOCK) and not latest(READERS) and living(1)[1]
local lease, owner = string.match(first and first.wants or '', '^w(%d+):(.*)$')
if not lease or not take_heir() then
  admit() -- also for a place: it may have been a writer's, before readers, or one that was woken in vain
  return held
end
ID, LEASE = first.id, tonumber(lease)
ME = owner ~= '' and owner or ID
local new = fence()
write(LEASE)
tell()
wake_followers(owner)
return {held, ID, new}
