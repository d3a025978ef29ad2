-- Waits for a latch to reach zero. LOCK is a hash, "count" and "generation", the id of the request that set it; it is
-- gone at zero. A waiter wants the end of the generation in which it came: the next one, set before it heard, does
-- not concern it. Keys, arguments and answer are those of common.lua.
local generation = redis.call('HGET', LOCK, 'generation')
local came = string.match(redis.call('HGET', WAITERS, ID) or '', '^%d+:(.*)$')
if generation and (not came or came == generation) then return deny(-1, generation) end
forget(ID)
return {1, 0}
