-- Takes all free permits. request.lua precedes this script.
-- KEYS[1]  lock; KEYS[2], KEYS[3] not used; KEYS[4] done (see request.lua)
-- ARGV     those of common.lua, not used
-- Returns the number of permits taken.
local total, held = read_counters()
local free = (total or 0) - held
if free <= 0 then return remember(0) end
set_held(total)
return remember(free)
