-- Releases permits. request.lua precedes this script.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; KEYS[4] done (see request.lua)
-- ARGV[1]  wake prefix; ARGV[2] id of the request; ARGV[3], ARGV[4] not used; ARGV[5] number of permits
-- Returns 1: released.
-- Returns 0: fewer permits are held.
write_at_memory_limit()
local n = tonumber(ARGV[5])
local total, held = read_counters()
if not total or held < n then return remember(0) end
set_held(held - n)
wake_admissible(total - held + n)
return remember(1)
