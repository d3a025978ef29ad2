-- Ends everything that ID has of the lock: the hold and the place in the queue. If that leaves the lock free, it is
-- handed over to a successor, or else the first waiter is woken. The latter also happens if ID had only a place in the
-- queue, because ID may have consumed a wake.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence (see common.lua, reentrant.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3], ARGV[4] not used; ARGV[5] owner, may be empty
-- Returns 1: ID had a hold.
-- Returns 0: it had none.
-- Returns {1 or 0 as above, successor's id, its token}: the lock was handed over (see take_successor).
local _, _, holds = read_holds()
local held = holds[ID] and 1 or 0
holds[ID] = nil
if held == 0 then dequeue(ID) end -- a holder is never in the queue
if next(holds) then
  if held == 1 then
    local before = redis.call('PTTL', LOCK)
    redis.call('HDEL', LOCK, 'hold:' .. ID)
    expire_with_last_hold(holds, before)
  end
  return held
end
redis.call('DEL', LOCK)
local successor = take_successor()
if not successor then
  wake_next()
  return held
end
local lease, owner = string.match(successor.wants, '^(%d+):(.*)$')
ID, LEASE = successor.id, tonumber(lease)
local token = new_token()
set_hold(owner ~= '' and owner or ID, token, holds)
wake_waiters_of(owner)
return {held, ID, token}
