-- Takes a reentrant lock, or takes it again. Keys, arguments and answer are those of common.lua and reentrant.lua.
local owner, token, holds = read()
if owner and owner ~= ME then return deny(redis.call('PTTL', LOCK), ARGV[3] .. ':' .. ARGV[5]) end
if not owner then token = fence() end
-- A question that comes twice does not shorten what was extended meanwhile.
if (holds[ID] or 0) < at + LEASE then keep(ME, token, holds) end
if MODE == 'wait' then forget(ID) end
if not owner then wake_followers(ARGV[5]) end
return {1, token}
