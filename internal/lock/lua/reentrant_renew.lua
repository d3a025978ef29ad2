-- Makes the lease of ID's hold end LEASE ms from now.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence, not used
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] not used; ARGV[5] owner, may be empty
-- Returns 1: renewed.
-- Returns 0: ID has no hold, or it has expired.
write_at_memory_limit()
local owner, token, holds = read_holds()
if not holds[ID] then return 0 end
set_hold(owner, token, holds)
return 1
