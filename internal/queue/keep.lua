-- Renews a consumer's claim on entries, so that nobody takes them for abandoned. Entries that somebody else has
-- taken meanwhile stay with him, and the count of deliveries stays as it is.
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV     then the entries
-- Returns how many are still this consumer's.
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local kept = 0
for i = 3, #ARGV do
  local pending = redis.call('XPENDING', stream, group, ARGV[i], ARGV[i], 1)[1]
  if pending and pending[2] == consumer then
    redis.call('XCLAIM', stream, group, consumer, 0, ARGV[i], 'IDLE', 0, 'RETRYCOUNT', pending[4], 'JUSTID')
    kept = kept + 1
  end
end
return kept
