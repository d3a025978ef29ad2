-- Takes a block of numbers from a counter, after a gap if Redis may have lost numbers that were used.
-- KEYS[1]  the counter; may be missing
-- KEYS[2]  the run id of the server at the last use of the counter
-- ARGV[1]  how many numbers to take
-- ARGV[2]  the time to live of both keys, in seconds
-- ARGV[3]  the start of a missing counter
-- ARGV[4]  the gap after numbers of another server, or of another run of this server
-- Returns the last number of the block. Without permission to read the run id there is no gap.
-- Fails and changes nothing if the counter does not hold a number.
local known, info = pcall(redis.call, 'INFO', 'server')
local run = known and string.match(info, 'run_id:(%w+)')
local last = redis.call('GET', KEYS[1])
local gap = not last and ARGV[3] or run and redis.call('GET', KEYS[2]) ~= run and ARGV[4] or '0'
last = redis.call('INCRBY', KEYS[1], string.format('%.0f', tonumber(ARGV[1]) + tonumber(gap)))
redis.call('EXPIRE', KEYS[1], ARGV[2])
if run then redis.call('SET', KEYS[2], run, 'EX', ARGV[2]) end
return last
