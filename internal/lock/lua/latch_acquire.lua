-- Waits for a latch to reach zero. LOCK is a hash with "count" and "generation", the id of the request that set it; it
-- does not exist at zero. A waiter's entry wants the end of the generation in which it arrived, so that a latch which
-- is set again before the waiter rechecks does not hold it back.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters (see common.lua)
-- ARGV[1]  wake prefix; ARGV[2] id; ARGV[3] not used; ARGV[4] "wait" or "try"
-- Returns {1, 0}: the count is zero, or was since the waiter arrived.
-- Returns {0, -1, 0}: it is not.
local generation = redis.call('HGET', LOCK, 'generation')
local came = string.match(redis.call('HGET', WAITERS, ID) or '', '^%d+:(.*)$')
if generation and (not came or came == generation) then return deny(-1, generation) end
dequeue(ID)
return {1, 0}
