-- Ends everything that ID has of a mutex or a fair lock: the hold and the place in the queue. If that leaves the lock
-- free, it is handed over to a successor, or else the first waiter is woken. The latter also happens if ID had only a
-- place in the queue, because ID may have consumed a wake.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence (see common.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3], ARGV[4] not used
-- Returns 1: ID had the hold.
-- Returns 0: it had none.
-- Returns {1 or 0 as above, successor's id, its token}: the lock was handed over (see take_successor).
local holder = redis.call('GET', LOCK)
if holder ~= ID then -- a holder is never in the queue
  dequeue(ID)
  if holder then return 0 end
end
local held = holder and 1 or 0
local successor = take_successor()
if successor then
  LEASE = tonumber(successor.wants)
  redis.call('SET', LOCK, successor.id, 'PX', LEASE)
  wake_first_before(LEASE)
  return {held, successor.id, new_token()}
end
if holder then redis.call('DEL', LOCK) end
wake_next()
return held
