-- Begins a load, unless the gate needs none or another load is running.
-- KEYS     those of common.lua
-- ARGV[1]  token of the load
-- ARGV[2]  lease in ms
-- ARGV[3]  empty: load only a cold gate; otherwise also replace a loaded gate whose "built" has this value
-- Returns
--   "taken"   the load has begun
--   "loaded"  the gate is loaded, and is not the one to be replaced
--   "busy"    another load is running
if loaded and (redis.call('HGET', META, 'built') or '0') ~= ARGV[3] then return 'loaded' end
if not redis.call('SET', LOADING, ARGV[1], 'NX', 'PX', ARGV[2]) then return 'busy' end
return 'taken'
