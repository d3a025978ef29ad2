-- Extends the lease of a load.
-- KEYS     those of common.lua; then the table being built
-- ARGV[1]  token of the load
-- ARGV[2]  lease in ms
-- ARGV[3]  time to live of the table in ms
-- Returns 1, or 0 if this load has lost its lease; then nothing changed.
if redis.call('GET', LOADING) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', LOADING, ARGV[2])
redis.call('PEXPIRE', NOTES, NOTES_TTL)
redis.call('PEXPIRE', KEYS[COMMON + 1], ARGV[3])
return 1
