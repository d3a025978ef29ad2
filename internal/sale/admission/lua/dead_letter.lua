-- Moves an unreadable entry to the dead letters, with its fields unchanged.
-- KEYS     those of common.lua
-- ARGV[1]  entry id
-- ARGV[2]  reason
-- Returns 1, or 0 if the entry is not in the stream (any more); then nothing was moved.
-- Idempotent.
local entry, reason = unpack(ARGV)
redis.call('XACK', STREAM, GROUP, entry)
local found = redis.call('XRANGE', STREAM, entry, entry)
if #found == 0 then return 0 end
redis.call('XDEL', STREAM, entry)
redis.call('XADD', DEAD, '*', 'dead_entry', entry, 'dead_reason', reason, 'dead_tries', 1, unpack(found[1][2]))
return 1
