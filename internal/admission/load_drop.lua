-- Ends a load without a result.
-- KEYS     common.lua; then the table being built
-- ARGV[1]  the loader's token
-- Returns 1. Repeating it does no harm.
if redis.call('GET', LOADING) == ARGV[1] then spoil() end
redis.call('UNLINK', KEYS[COMMON + 1])
return 1
