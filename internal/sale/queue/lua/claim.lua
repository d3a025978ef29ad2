-- Claims entries that have been pending for long, with any consumer.
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer that claims
-- ARGV[3]  time in ms that an entry must have been pending
-- ARGV[4]  most entries
-- Returns a list of {id, {field, value, ...}}, oldest first.
-- Entries that were deleted from the stream are acknowledged: their content is lost.
-- Fails with NOGROUP if the stream or the group does not exist.
local stream, group, consumer, idle, most = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local claimed = {}
for _, pending in ipairs(redis.call('XPENDING', stream, group, 'IDLE', idle, '-', '+', most)) do
  local id = pending[1]
  local found = redis.call('XRANGE', stream, id, id)
  if #found == 0 then
    redis.call('XACK', stream, group, id)
  else
    redis.call('XCLAIM', stream, group, consumer, idle, id)
    claimed[#claimed + 1] = {id, found[1][2]}
  end
end
return claimed
