-- Changes the number of units that may be admitted.
-- KEYS     those of common.lua
-- ARGV[1]  units to add; negative to remove
-- Returns
--   "ok"     the stock was changed
--   "cold"   the gate is not loaded; the next load reads the new stock from the database
--   "short"  fewer units are left than were to be removed, and nothing changed
-- Not idempotent.
if loading then abort_load() end -- it may have read the stock before or after the change
if not loaded then return 'cold' end
local delta = tonumber(ARGV[1])
if delta < 0 and tonumber(redis.call('GET', STOCK)) + delta < 0 then return 'short' end
redis.call('INCRBY', STOCK, ARGV[1])
increment_version()
return 'ok'
