-- Takes a block of numbers from a counter, and leaves a gap where Redis may have forgotten some that were given out.
-- KEYS[1]  the counter; it may be missing
-- KEYS[2]  the run id of the server that counted last
-- ARGV[1]  how many numbers
-- ARGV[2]  the time to live of both keys, in seconds
-- ARGV[3]  where a counter begins that is missing
-- ARGV[4]  the gap where another server, or another run of this one, has counted before
-- Returns the last number of the block. Who may not read the run id counts without a gap.
-- Fails, and changes nothing, if the counter holds something else than a number.
local known, info = pcall(redis.call, 'INFO', 'server')
local run = known and string.match(info, 'run_id:(%w+)')
local last = redis.call('GET', KEYS[1])
local gap = not last and ARGV[3] or run and redis.call('GET', KEYS[2]) ~= run and ARGV[4] or '0'
last = redis.call('INCRBY', KEYS[1], string.format('%.0f', tonumber(ARGV[1]) + tonumber(gap)))
redis.call('EXPIRE', KEYS[1], ARGV[2])
if run then redis.call('SET', KEYS[2], run, 'EX', ARGV[2]) end
return last
