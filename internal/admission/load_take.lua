-- Begins a load, unless there is nothing to load or somebody else is at it.
-- KEYS     common.lua
-- ARGV[1]  the loader's token
-- ARGV[2]  its lease in ms
-- Returns "loaded", "busy", or "taken".
if loaded then return 'loaded' end
if not redis.call('SET', LOADING, ARGV[1], 'NX', 'PX', ARGV[2]) then return 'busy' end
return 'taken'
