-- Reads the orders of a buyer.
-- KEYS     those of common.lua
-- ARGV[1]  user
-- Returns {list of order ids, 1 if the gate may lack others, else 0}; nil if the gate is cold and has no order of the
-- buyer.
local list = redis.call('HGET', BUYERS, ARGV[1])
if not loaded and not list then return false end
return {list or '', loaded and not has_all_admissions() and 1 or 0}
