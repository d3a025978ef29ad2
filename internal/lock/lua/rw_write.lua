-- Acquires the lock for writing. The owner of the write holds is admitted at once; any other writer waits for all
-- earlier waiters.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence; KEYS[5] readers; KEYS[6] writer; KEYS[7] reads (see
--          common.lua, rw.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] "wait" or "try"; ARGV[5] owner, may be empty
-- Returns {1, token}: granted.
-- Returns {0, ms, place}: taken, as in common.lua.
-- Returns {-1, 0}: the owner has the lock for reading only and would wait for itself.
local _, mine = writer_state()
if not mine then
  if last_deadline(READS) then return {-1, 0} end
  local first = live_waiters(1)[1]
  local other = first and first.id ~= ID and first.deadline or 0
  local ends = math.max(last_deadline(LOCK) or 0, last_deadline(READERS) or 0, other)
  if ends > 0 then return refuse(ends - now_ms, 'w') end
  new_token()
end
set_write_hold(LEASE)
if MODE == 'wait' then dequeue(ID) end
wake_first_before_recheck()
if not mine then wake_waiters_of(ARGV[5]) end
return {1, last_token()}
