-- Makes a segment cold. What it knows about a loss of data stays.
-- KEYS     those of common.lua; then the loans of this segment
-- ARGV[1]  1 if the gate names its server in an earlier segment: then a segment that does not is new; otherwise 0
-- Returns 1 if the gate names its server, and 0 if not.
-- Idempotent.
local run, lost = unpack(redis.pcall('HMGET', META, 'run', 'lost')) -- nothing if META is no hash
redis.call('UNLINK', STOCK, BUYERS, META, LOADING, NOTES, KEYS[COMMON + 1])
if not run and ARGV[1] == '1' then run = server_run() end
if run then redis.call('HSET', META, 'run', run) end
if lost then redis.call('HSET', META, 'lost', lost) end
return run and 1 or 0
