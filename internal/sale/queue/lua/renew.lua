-- Resets the idle time of entries that a consumer is still working on, so that no other consumer claims them. Entries
-- that another consumer has claimed stay with it. If the server refuses writes, nothing is claimed, but the answer is
-- right all the same.
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV     then the entry ids
-- Returns the entries that are not in the stream any more: they were settled, or Redis lost them.
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local gone = {}
for i = 3, #ARGV do
  local entry = ARGV[i]
  if #redis.call('XRANGE', stream, entry, entry) == 0 then
    gone[#gone + 1] = entry
  else
    local pending = redis.pcall('XPENDING', stream, group, entry, entry, 1)[1] -- nil without the group
    if pending and pending[2] == consumer then
      redis.pcall('XCLAIM', stream, group, consumer, 0, entry, 'IDLE', 0, 'JUSTID')
    end
  end
end
return gone
