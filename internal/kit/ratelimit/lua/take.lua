-- Takes one call from every bucket, or from none. The time to live of a key is the time until its bucket is full, so a
-- missing key is a full bucket, and the clock of Redis measures the time.
-- KEYS         the buckets, in one cluster slot
-- ARGV[2i-1]   milliseconds in which bucket i refills what the call takes
-- ARGV[2i]     milliseconds in which bucket i refills if it is empty
-- Returns {0, 0} if the call is allowed. Otherwise it changes nothing and returns the milliseconds until every bucket has
-- one, and which bucket is the last to have one.
local taken, wait, last = {}, 0, 0
for i, key in ipairs(KEYS) do
  local one, all = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  taken[i] = math.max(0, math.min(redis.call('PTTL', key), all)) + one -- more than all if the clock was set back
  if taken[i] - all > wait then wait, last = taken[i] - all, i end
end
if wait > 0 then return {wait, last} end
for i, key in ipairs(KEYS) do redis.call('SET', key, '', 'PX', taken[i]) end
return {0, 0}
