-- Raises a counter to a value that it must have passed.
-- KEYS[1]  the counter of a day
-- ARGV[1]  the least value it must have afterwards
-- ARGV[2]  its time to live in milliseconds
-- Returns  the counter's value. Running it twice does what running it once does.
local current = tonumber(redis.call('GET', KEYS[1]) or '0')
local target = tonumber(ARGV[1])
if current < target then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return target
end
return current
