-- Makes the lease of ID's hold, for writing or for reading, end LEASE ms from now.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence; KEYS[5] readers; KEYS[6] writer; KEYS[7] reads (see
--          common.lua, rw.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] not used; ARGV[5] owner, may be empty
-- Returns 1: renewed.
-- Returns 0: ID has no hold, or it has expired.
write_at_memory_limit()
if has_live_hold(LOCK) then
  set_write_hold(LEASE)
elseif has_live_hold(READERS) then
  set_read_hold(LEASE)
else
  return 0
end
last_token()
wake_first_before_recheck()
return 1
