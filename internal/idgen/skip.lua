-- Raises a counter to at least a given value; never lowers it.
-- KEYS[1]  the counter; may be missing
-- ARGV[1]  its minimum value, an integer of at most 2^53
-- ARGV[2]  its time to live, in seconds
-- Returns 1 if the counter was raised, 0 if it was high enough.
-- Fails and changes nothing if the key does not hold a number.
-- Repeating the call changes nothing but the time to live.
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
