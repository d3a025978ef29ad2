-- Raises a counter to at least a given value; never lowers it.
-- KEYS[1]  the counter; it may be missing
-- ARGV[1]  the least value it shall have, an integer of at most 2^53
-- ARGV[2]  its time to live from now, in seconds
-- Returns 1 if it was raised, 0 if it was high enough.
-- Fails, and changes nothing, if the key holds something else than a number.
-- Repeating it does no harm.
local now = redis.call('GET', KEYS[1])
if now and not tonumber(now) then
  return redis.error_reply('ERR value is not an integer or out of range')
end
if now and tonumber(now) >= tonumber(ARGV[1]) then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
