-- Makes the lease of ID's hold end LEASE ms from now. Returns 1, or 0 if it has none, or no more.
local owner, token, holds = read()
if not holds[ID] then return 0 end
local before = redis.call('PTTL', LOCK)
keep(owner, token, holds)
if redis.call('PTTL', LOCK) < before then wake_next() end -- who waits relies on the later end
return 1
