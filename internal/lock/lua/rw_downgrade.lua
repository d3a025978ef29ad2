-- Turns ID's write hold into a read hold, with a lease of LEASE ms from now.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence; KEYS[5] readers; KEYS[6] writer; KEYS[7] reads (see
--          common.lua, rw.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] not used; ARGV[5] owner, may be empty
-- Returns 1: ID has a read hold, from this call or, after a lost reply, from an earlier one.
-- Returns 0: ID has no hold, or it has expired.
write_at_memory_limit()
if not has_live_hold(LOCK) and not has_live_hold(READERS) then return 0 end
set_write_hold()
set_read_hold(LEASE)
last_token()
wake_admissible()
return 1
