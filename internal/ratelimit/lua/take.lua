-- Takes one call from a bucket. The time to live of the key is the time until the bucket is full, so a missing key is a
-- full bucket, and the clock of Redis measures the time.
-- KEYS[1]  the bucket
-- ARGV[1]  milliseconds in which the tokens of the call are refilled
-- ARGV[2]  milliseconds in which an empty bucket is refilled
-- Returns 0 if the call is allowed. Otherwise it changes nothing and returns the milliseconds until a call is allowed.
local one, all = tonumber(ARGV[1]), tonumber(ARGV[2])
local taken = math.max(0, math.min(redis.call('PTTL', KEYS[1]), all)) -- more than all if the clock was set back
local wait = taken + one - all
if wait > 0 then return wait end
redis.call('SET', KEYS[1], '', 'PX', taken + one)
return 0
