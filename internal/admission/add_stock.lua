-- Changes the units that may be admitted.
-- KEYS     common.lua
-- ARGV[1]  how many more; negative for fewer
-- Returns "ok"; "cold" if nothing is loaded, which the next load makes right; "short" if there are not so many to take
-- away, and the gate did not change.
if loading then spoil() end -- it may have read the stock before or after the change
if not loaded then return 'cold' end
local delta = tonumber(ARGV[1])
if delta < 0 and tonumber(redis.call('GET', STOCK)) + delta < 0 then return 'short' end
redis.call('INCRBY', STOCK, ARGV[1])
changed()
return 'ok'
