-- Takes a reentrant lock, or takes it again. Keys, arguments and answer are those of common.lua, and
-- ARGV[5]  who takes it
local owner, token, holds = read()
if owner and owner ~= ARGV[5] then return deny(redis.call('PTTL', LOCK)) end
if not owner then token = fence() end
-- A question that comes twice does not shorten what was extended meanwhile.
if (holds[ID] or 0) < at + LEASE then keep(ARGV[5], token, holds) end
if MODE == 'wait' then forget(ID) end
return {1, token}
