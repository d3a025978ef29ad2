-- Puts back the tickets of rows that are in an entry of the stream: somebody took them away.
-- KEYS     common.lua
-- ARGV[1]  the loader's token
-- ARGV     then for each row: entry, user, row
-- Returns 1, or 0 if the load is not this loader's any more, and nothing changed. An entry that has left the stream
-- needs no tickets. Repeating it does no harm.
if redis.call('GET', LOADING) ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 3 do
  local entry, user, row = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local mine = redis.call('HGET', QUEUED, user) or ''
  local there = string.find('\n' .. mine .. '\n', '\n' .. row .. '\n', 1, true)
  if not there and #redis.call('XRANGE', STREAM, entry, entry) > 0 then enqueue({user}, {row}) end
end
return 1
