-- Ends everything that ID has: its permits and its place in the queue.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] holders (see common.lua, leased.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3], ARGV[4] not used; ARGV[5] number of permits
-- Returns 1: ID had permits.
-- Returns 0: it had none, or they had expired.
write_at_memory_limit()
local n, holder = tonumber(ARGV[5]), ARGV[5] .. ':' .. ID
local total, held = read_counters()
local had = redis.call('ZREM', HOLDERS, holder) == 1
dequeue(ID)
if not total then return 0 end
if had then
  held = held - n
  set_held(held)
end
wake_admissible(total - held)
return had and 1 or 0
