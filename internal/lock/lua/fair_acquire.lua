-- Acquires a fair lock. LOCK is a string, the id of the hold. Only the first waiter gets it; a try succeeds only if the
-- queue is empty. A waiter's entry wants its lease.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence (see common.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] "wait" or "try"
-- Returns {1, token}: granted.
-- Returns {0, ms, place}: taken, as in common.lua. Behind another waiter, ms is the time until that waiter counts as
-- dead.
local holder = redis.call('GET', LOCK)
if holder == ID then -- repeated after a lost reply; the lease may have been extended since
  if redis.call('PTTL', LOCK) < LEASE then redis.call('PEXPIRE', LOCK, LEASE) end
  dequeue(ID)
  return {1, tonumber(redis.call('GET', FENCE)) or new_token()}
end
local first = live_waiters(1)[1]
if not holder and (not first or first.id == ID) then
  redis.call('SET', LOCK, ID, 'PX', LEASE)
  if first then dequeue(ID) end
  wake_first_before(LEASE)
  return {1, new_token()}
end
if holder and (not first or first.id == ID) then return deny(redis.call('PTTL', LOCK), ARGV[3]) end
-- Another waiter is first. The caller can acquire the lock only after that one has, or is dead.
if not holder then wake(first.id) end
return deny(first.deadline - now_micros() / 1000, ARGV[3])
