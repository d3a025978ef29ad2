-- Abandons a load and deletes its table.
-- KEYS     those of common.lua; then the table being built
-- ARGV[1]  token of the load
-- Returns 1.
-- Idempotent.
if redis.call('GET', LOADING) == ARGV[1] then abort_load() end
redis.call('UNLINK', KEYS[COMMON + 1])
return 1
