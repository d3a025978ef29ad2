-- Begins a load, unless the gate needs none or another load is running.
-- KEYS     those of common.lua
-- ARGV[1]  token of the load
-- ARGV[2]  lease in ms; 0: only answer
-- ARGV[3]  empty: load only a gate that is cold or may lack admissions; otherwise also replace a loaded gate whose
--          "built" has this value
-- ARGV[4]  generation of the sale in the database, read before this call; an earlier one than that of the gate means that
--          the database has lost it
-- Returns {answer, history of the server}, with one of
--   "fence"   the load has begun, and must raise the generation: Redis or the database may have lost admissions
--   "taken"   the load has begun
--   "loaded"  the gate is loaded, and is not the one to be replaced
--   "busy"    another load is running
-- Without permission to read the history it changes nothing and returns an error.
local history = server_history()
if not history then return redis.error_reply('ERR a load needs permission for the command INFO') end

local whole = loaded and has_all_admissions()
whole = whole and tonumber(redis.call('HGET', META, 'generation')) <= tonumber(ARGV[4])
local answer = whole and 'taken' or 'fence'
if whole and (redis.call('HGET', META, 'built') or '0') ~= ARGV[3] then
  answer = 'loaded'
elseif ARGV[2] ~= '0' and not redis.call('SET', LOADING, ARGV[1], 'NX', 'PX', ARGV[2]) then
  answer = 'busy'
end
return {answer, history}
