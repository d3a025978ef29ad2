-- Makes the lease of ID's permits end LEASE ms from now.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] holders (see common.lua, leased.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] lease in ms; ARGV[4] not used; ARGV[5] number of permits
-- Returns 1: renewed.
-- Returns 0: ID has no permits, or they have expired.
write_at_memory_limit()
local holder = ARGV[5] .. ':' .. ID
local total, held = read_counters()
local ends = total and redis.call('ZSCORE', HOLDERS, holder)
if not ends then return 0 end
local moved = math.ceil(now_micros() / 1000 + LEASE)
redis.call('ZADD', HOLDERS, format_int(moved), holder)
if moved < tonumber(ends) then wake_admissible(total - held) end -- the first waiter may be admitted earlier than it expects
return 1
