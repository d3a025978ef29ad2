-- Takes a reentrant lock, or takes it again: LOCK is a hash with the owner, the token, and a deadline in ms for each
-- hold, under "hold:" and its id. Keys, arguments and answer are those of common.lua, and
-- ARGV[5]  owner of the lock, if it is had
local owner = redis.call('HGET', LOCK, 'owner')
if owner and owner ~= ARGV[5] then return deny(redis.call('PTTL', LOCK)) end
local token = owner and tonumber(redis.call('HGET', LOCK, 'token'))
if not token then
  token = fence()
  redis.call('HSET', LOCK, 'owner', ARGV[5], 'token', int(token))
end
hold(LEASE)
if MODE == 'wait' then forget(ID) end
return {1, token}
