-- Makes the lease of a mutex or a fair lock end LEASE ms from now.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence, not used
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] not used
-- Returns 1: renewed.
-- Returns 0: ID does not hold the lock.
if redis.call('GET', LOCK) ~= ID then return 0 end
local before = redis.call('PTTL', LOCK)
redis.call('PEXPIRE', LOCK, LEASE)
if LEASE < before then wake_first_before(LEASE) end
return 1
