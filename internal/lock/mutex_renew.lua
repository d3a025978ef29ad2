-- Makes the lease of a mutex or a fair lock end LEASE ms from now. Returns 1, or 0 if it is not ID's.
if redis.call('GET', LOCK) ~= ID then return 0 end
local before = redis.call('PTTL', LOCK)
redis.call('PEXPIRE', LOCK, LEASE)
if LEASE < before then tell_end(LEASE) end
return 1
