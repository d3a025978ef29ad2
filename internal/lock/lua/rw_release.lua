-- Ends everything that ID has of the lock: the hold, for writing or for reading, and the place in the queue. If that
-- leaves the lock free and the first waiter is a writer, it is handed over to that writer if it is a successor.
-- Otherwise every waiter that can be admitted is woken.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence; KEYS[5] readers; KEYS[6] writer; KEYS[7] reads (see
--          common.lua, rw.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3], ARGV[4] not used; ARGV[5] owner, may be empty
-- Returns 1: ID had a hold.
-- Returns 0: it had none.
-- Returns {1 or 0 as above, successor's id, its token}: the lock was handed over (see take_successor).
local wrote, had_read = has_live_hold(LOCK), has_live_hold(READERS)
local held = (wrote or had_read) and 1 or 0
set_write_hold()
set_read_hold()
dequeue(ID)
if had_read and last_deadline(READERS) then
  wake_first_before_recheck() -- other readers remain, so no waiter can be admitted
  return held
end
local first = not last_deadline(LOCK) and not last_deadline(READERS) and live_waiters(1)[1]
local lease, owner = string.match(first and first.wants or '', '^w(%d+):(.*)$')
if not lease or not take_successor() then
  wake_admissible() -- even if ID was only queued: as a writer ahead of readers, or having consumed a wake
  return held
end
ID, LEASE = first.id, tonumber(lease)
OWNER = owner ~= '' and owner or ID
local new = new_token()
set_write_hold(LEASE)
wake_first_before_recheck()
wake_waiters_of(owner)
return {held, ID, new}
