-- Ends whatever ID has of the lock: the hold, the place in the queue. Returns 1 if it had the hold, else 0; or, if
-- nobody has the lock now, leaves it to an heir. If there is none, the first in the queue is woken, also if ID had no
-- more than a place there: it may have been woken in vain.
local _, _, holds = read()
local held = holds[ID] and 1 or 0
holds[ID] = nil
if held == 0 then forget(ID) end -- who holds it is not in the queue
if next(holds) then
  if held == 1 then
    local before = redis.call('PTTL', LOCK)
    redis.call('HDEL', LOCK, 'hold:' .. ID)
    outlast(holds, before)
  end
  return held
end
redis.call('DEL', LOCK)
local heir = take_heir()
if not heir then
  wake_next()
  return held
end
local lease, owner = string.match(heir.wants, '^(%d+):(.*)$')
ID, LEASE = heir.id, tonumber(lease)
local token = fence()
keep(owner ~= '' and owner or ID, token, holds)
wake_followers(owner)
return {held, ID, token}
