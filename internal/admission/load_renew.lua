-- Keeps a load going.
-- KEYS     common.lua; then the table being built
-- ARGV[1]  the loader's token
-- ARGV[2]  its lease in ms
-- ARGV[3]  how long the table lives without it, in ms
-- Returns 1, or 0 if the load is not this loader's any more.
if redis.call('GET', LOADING) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', LOADING, ARGV[2])
redis.call('PEXPIRE', NOTES, NOTES_TTL)
redis.call('PEXPIRE', KEYS[COMMON + 1], ARGV[3])
return 1
