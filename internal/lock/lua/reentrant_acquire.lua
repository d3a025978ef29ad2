-- Acquires a reentrant lock, or acquires it again for the same owner.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] fence (see common.lua, reentrant.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] "wait" or "try"; ARGV[5] owner, may be empty
-- Returns {1, token}: granted; the token is the same for all holds of an owner.
-- Returns {0, ms, place}: another owner has the lock, as in common.lua.
local owner, token, holds = read_holds()
if owner and owner ~= OWNER then return deny(redis.call('PTTL', LOCK), ARGV[3] .. ':' .. ARGV[5]) end
if not owner then token = new_token() end
-- A repetition after a lost reply must not shorten a lease that was extended since.
if (holds[ID] or 0) < now_ms + LEASE then set_hold(OWNER, token, holds) end
if MODE == 'wait' then dequeue(ID) end
if not owner then wake_waiters_of(ARGV[5]) end
return {1, token}
