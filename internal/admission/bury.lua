-- Moves an entry that cannot be read to the dead letters, with its fields as they are.
-- KEYS     common.lua
-- ARGV[1]  entry
-- ARGV[2]  reason
-- ARGV[3]  tries
-- Returns 1, or 0 if the entry is not there (any more), and nothing was done.
-- Repeating it does no harm.
local entry, reason, tries = unpack(ARGV)
redis.call('XACK', STREAM, GROUP, entry)
local found = redis.call('XRANGE', STREAM, entry, entry)
if #found == 0 then return 0 end
redis.call('XDEL', STREAM, entry)
redis.call('XADD', DEAD, '*', 'dead_entry', entry, 'dead_reason', reason, 'dead_tries', tries, unpack(found[1][2]))
return 1
