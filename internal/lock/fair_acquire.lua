-- Takes a fair lock: LOCK is a string, the id of its hold; only the first in the queue gets it, and a try only when
-- nobody waits. Keys, arguments and answer are those of common.lua. What a waiter wants is its lease.
local holder = redis.call('GET', LOCK)
if holder == ID then -- the answer to the first time was lost; the lease may have been extended since
  if redis.call('PTTL', LOCK) < LEASE then redis.call('PEXPIRE', LOCK, LEASE) end
  forget(ID)
  return {1, tonumber(redis.call('GET', FENCE)) or fence()}
end
local first = living(1)[1]
if not holder and (not first or first.id == ID) then
  redis.call('SET', LOCK, ID, 'PX', LEASE)
  if first then forget(ID) end
  tell_end(LEASE)
  return {1, fence()}
end
if holder and (not first or first.id == ID) then return deny(redis.call('PTTL', LOCK), ARGV[3]) end
-- Somebody is before us: there is nothing to hope for until that waiter is in, or dead.
if not holder then wake(first.id) end
return deny(first.deadline - now() / 1000, ARGV[3])
