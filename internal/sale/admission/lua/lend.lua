-- Takes free units out of a segment, for another segment of the same gate.
-- KEYS     those of common.lua; then the loans of this segment
-- ARGV[1]  epoch
-- ARGV[2]  shard of the other segment
-- ARGV[3]  most units to take
-- Returns the total that this segment has lent to the other one in this epoch, or nil, and then nothing changed: the
-- gate is cold, is being loaded, or is of another epoch.
-- A repeated call takes more units; the total includes all of them.
local epoch, other, most = unpack(ARGV)
local LOANS = KEYS[COMMON + 1]
if not loaded or loading or redis.call('HGET', LOANS, 'epoch') ~= epoch then return false end
local units = math.min(tonumber(redis.call('GET', STOCK)), tonumber(most))
if units > 0 then
  redis.call('DECRBY', STOCK, units)
  redis.call('HINCRBY', LOANS, 'to:' .. other, units)
  increment_version()
end
return tonumber(redis.call('HGET', LOANS, 'to:' .. other) or 0)
