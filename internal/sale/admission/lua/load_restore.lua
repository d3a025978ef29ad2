-- Restores missing tickets of rows that are in an entry of the stream. An entry that has left the stream since needs
-- none.
-- KEYS     those of common.lua
-- ARGV[1]  token of the load
-- ARGV     then for each row: entry id, user, row
-- Returns 1, or 0 if this load has lost its lease; then nothing changed.
-- Idempotent.
if redis.call('GET', LOADING) ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 3 do
  local entry, user, row = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local tickets = redis.call('HGET', QUEUED, user) or ''
  local present = string.find('\n' .. tickets .. '\n', '\n' .. row .. '\n', 1, true)
  if not present and #redis.call('XRANGE', STREAM, entry, entry) > 0 then add_tickets({user}, {row}) end
end
return 1
