-- Deletes consumers that have nothing pending and have been idle for long. It is one script because the group loses the
-- pending entries of a consumer that is deleted.
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  time in ms that a consumer must have been idle
-- Returns the number of deleted consumers: always 0 on miniredis, which reports an idle time of -1.
-- Fails if the stream or the group does not exist (NOGROUP for the group).
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
