-- Adds units that another segment has lent to this one.
-- KEYS     those of common.lua; then the loans of this segment
-- ARGV[1]  epoch
-- ARGV[2]  shard of the other segment
-- ARGV[3]  total that the other segment has lent to this one in this epoch
-- Returns the units that this call added, or nil, and then nothing changed: the gate is cold, is being loaded, or is of
-- another epoch.
-- Idempotent: the segment remembers the total, so calls may be repeated and reordered.
local epoch, other, total = unpack(ARGV)
local LOANS = KEYS[COMMON + 1]
if not loaded or loading or redis.call('HGET', LOANS, 'epoch') ~= epoch then return false end
local units = tonumber(total) - tonumber(redis.call('HGET', LOANS, 'from:' .. other) or 0)
if units <= 0 then return 0 end
redis.call('INCRBY', STOCK, units)
redis.call('HSET', LOANS, 'from:' .. other, total)
increment_version()
return units
