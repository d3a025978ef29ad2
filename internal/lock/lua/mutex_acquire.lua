-- Acquires a mutex. LOCK is a string, the id of the hold. A waiter's entry wants its lease.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence (see common.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] "wait" or "try"
-- Returns {1, token}: granted.
-- Returns {0, ms, place}: taken, as in common.lua.
if not redis.call('SET', LOCK, ID, 'NX', 'PX', LEASE) then
  if redis.call('GET', LOCK) ~= ID then return deny(redis.call('PTTL', LOCK), ARGV[3]) end
  -- This is a repetition after a lost reply. It must not shorten a lease that was extended since.
  if redis.call('PTTL', LOCK) < LEASE then redis.call('PEXPIRE', LOCK, LEASE) end
  dequeue(ID)
  return {1, tonumber(redis.call('GET', FENCE)) or new_token()}
end
if MODE == 'wait' then dequeue(ID) end
wake_first_before(LEASE)
return {1, new_token()}
