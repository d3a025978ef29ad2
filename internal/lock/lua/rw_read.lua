-- Acquires the lock for reading. An owner that reads or writes already is admitted regardless of the queue; any other
-- reader waits behind a writer that arrived earlier.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence; KEYS[5] readers; KEYS[6] writer; KEYS[7] reads (see
--          common.lua, rw.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] "wait" or "try"; ARGV[5] owner, may be empty
-- Returns {1, token}: granted; the token is the last writer's.
-- Returns {0, ms, place}: taken, as in common.lua.
local taken, mine = writer_state()
if taken and not mine then return refuse(last_deadline(LOCK) - now_ms, 'r') end
local again = mine or last_deadline(READS)
if not again and not has_live_hold(READERS) then
  local _, writer = readers_before_writer()
  if writer then return refuse(writer.deadline - now_ms, 'r') end
end
set_read_hold(LEASE)
if MODE == 'wait' then dequeue(ID) end
wake_first_before_recheck()
if not again then wake_waiters_of(ARGV[5]) end -- even a writer, which then gets ErrUpgrade
return {1, last_token()}
