-- Counts the buyers of a gate, for a complete list of them.
-- KEYS     those of common.lua
-- Returns {number, built}; {} if the gate may lack some of them; nil if it is cold.
if not loaded then return false end
if not has_all_admissions() then return {} end
return {redis.call('HLEN', BUYERS), tonumber(redis.call('HGET', META, 'built') or '') or 0}
