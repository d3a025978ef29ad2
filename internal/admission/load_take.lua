-- Begins a load, unless the gate is as it should be or another loader is at work.
-- KEYS     common.lua
-- ARGV[1]  the loader's token
-- ARGV[2]  its lease in ms
-- ARGV[3]  empty: only a cold gate is loaded; else a loaded one is, too, if this is when it was built
-- Returns "loaded", "busy", or "taken".
if loaded and (redis.call('HGET', META, 'built') or '0') ~= ARGV[3] then return 'loaded' end
if not redis.call('SET', LOADING, ARGV[1], 'NX', 'PX', ARGV[2]) then return 'busy' end
return 'taken'
