-- Moves an entry to the dead letters, with its fields as they are, and undoes its admission.
-- KEYS     common.lua; then the user's tickets, if the entry could be read
-- ARGV[1]  entry
-- ARGV[2]  reason
-- ARGV[3]  tries
-- ARGV     then, if the entry could be read: order, user, voucher, amount, limit, at in ms
-- Returns 1, or 0 if the entry is not there (any more), and nothing was done.
-- Repeating it does no harm.
local entry, reason, tries, order, user, voucher, amount, limit, at = unpack(ARGV)
redis.call('XACK', STREAM, GROUP, entry)
local found = redis.call('XRANGE', STREAM, entry, entry)
if #found == 0 then return 0 end
redis.call('XDEL', STREAM, entry)
redis.call('XADD', DEAD, '*', 'dead_entry', entry, 'dead_reason', reason, 'dead_tries', tries, unpack(found[1][2]))
if order then
  leave(entry)
  release(user, order)
  fail(KEYS[8], 'internal', order, voucher, amount, limit, at)
  changed()
end
return 1
