-- Changes the number of permits; a semaphore that was never set starts from 0. request.lua precedes this script.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; a leased semaphore's KEYS[4] holders; KEYS[last] done (see
--          request.lua)
-- ARGV[1]  wake prefix; ARGV[2] id of the request; ARGV[3], ARGV[4] not used; ARGV[5] the change, may be negative
-- Returns 1: changed.
-- Returns 0: the total would exceed MAX_PERMITS or fall below -MAX_PERMITS.
local total, held = read_counters()
local sum = (total or 0) + tonumber(ARGV[5])
if math.abs(sum) > MAX_PERMITS then return remember(0) end
if total then
  redis.call('HSET', LOCK, 'total', format_int(sum))
else
  create_counters(sum)
end
wake_admissible(sum - held)
return remember(1)
