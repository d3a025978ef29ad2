-- Makes tickets match the stream: removes those of rows that are in no entry, because the stream was cut from outside, and
-- restores those of rows that are. An entry that has left the stream since needs no tickets.
-- KEYS     those of common.lua
-- ARGV[1]  token of the load
-- ARGV     then for each ticket: entry id, empty for a row in no entry; user; row
-- Returns 1, or 0 if this load has lost its lease; then nothing changed.
-- Idempotent.
if redis.call('GET', LOADING) ~= ARGV[1] then return 0 end
local users, rows = {}, {}
for i = 2, #ARGV, 3 do
  local entry, user, row = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if entry == '' then
    users[#users + 1] = user
    rows[#rows + 1] = row
  else
    local tickets = redis.call('HGET', QUEUED, user) or ''
    local present = string.find('\n' .. tickets .. '\n', '\n' .. row .. '\n', 1, true)
    if not present and #redis.call('XRANGE', STREAM, entry, entry) > 0 then add_tickets({user}, {row}) end
  end
end
remove_tickets(users, rows)
return 1
