-- Ends whatever ID has of the lock: the hold, the place in the queue. Returns 1 if it had the hold, else 0. A place
-- that is given up may have been woken in vain, so the next one is.
local _, _, holds = read()
local had = holds[ID] ~= nil
holds[ID] = nil
forget(ID)
if had and next(holds) then
  redis.call('HDEL', LOCK, 'hold:' .. ID)
  outlast(holds)
elseif not next(holds) then
  redis.call('DEL', LOCK)
  wake_next()
end
return had and 1 or 0
