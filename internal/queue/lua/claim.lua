-- Claims what has been pending for long, whoever had it.
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer who claims
-- ARGV[3]  for how long an entry must have been pending, in ms
-- ARGV[4]  how many entries at most
-- Returns a list of {id, how often it was delivered, this time included, {field, value, ...}}, the oldest first.
-- Entries that were deleted from the stream are acknowledged: nobody can do anything about them.
-- Fails with NOGROUP if there is no such stream or group.
local stream, group, consumer, idle, most = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local claimed = {}
for _, pending in ipairs(redis.call('XPENDING', stream, group, 'IDLE', idle, '-', '+', most)) do
  local id, deliveries = pending[1], pending[4]
  local found = redis.call('XRANGE', stream, id, id)
  if #found == 0 then
    redis.call('XACK', stream, group, id)
  else
    redis.call('XCLAIM', stream, group, consumer, idle, id)
    claimed[#claimed + 1] = {id, deliveries + 1, found[1][2]}
  end
end
return claimed
