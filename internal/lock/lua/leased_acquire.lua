-- Acquires permits with a lease.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] holders (see common.lua, leased.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] "wait" or "try"; ARGV[5] number of permits
-- Returns {1, 0}: granted.
-- Returns {0, ms, place}: not enough free permits, or an earlier waiter comes first, as in common.lua.
local n, holder = tonumber(ARGV[5]), ARGV[5] .. ':' .. ID
local total, held = read_counters()
local free = (total or 0) - held
if not (total and redis.call('ZSCORE', HOLDERS, holder)) then -- otherwise this is a repetition after a lost reply
  if not may_take(free, n) then return refuse_permits(n, ms_until_expired(n - free)) end
  set_held(held + n)
  free = free - n
end
local ends, known = now_micros() / 1000 + LEASE, redis.call('ZSCORE', HOLDERS, holder)
if not known or tonumber(known) < ends then -- a repetition must not shorten an extended lease
  redis.call('ZADD', HOLDERS, format_int(math.ceil(ends)), holder)
end
after_acquire(free)
return {1, 0}
