-- Counts the buyers of a gate, for a complete list of them.
-- KEYS     those of common.lua
-- Returns their number, -1 if the gate may lack some of them, or nil if it is cold.
if not loaded then return false end
if may_lack_admissions() then return -1 end
return redis.call('HLEN', BUYERS)
