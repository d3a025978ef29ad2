-- Deletes consumers that are gone: nothing is pending with them, and nobody has used their name for long.
-- One script, because what a consumer has pending is lost to the group when the consumer is deleted.
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  for how long a consumer must have been idle, in ms
-- Returns how many were deleted: none in miniredis, which says -1 for the idle time.
-- Fails with NOGROUP if there is no such group, and if there is no such stream.
local deleted = 0
for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for i = 1, #info, 2 do consumer[info[i]] = info[i + 1] end
  if consumer.pending == 0 and consumer.idle > tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
    deleted = deleted + 1
  end
end
return deleted
