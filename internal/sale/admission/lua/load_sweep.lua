-- Removes tickets whose rows are in no entry of the stream, because the stream was cut from outside.
-- KEYS     those of common.lua
-- ARGV[1]  token of the load
-- ARGV     then for each ticket: user, row
-- Returns 1, or 0 if this load has lost its lease; then nothing changed.
-- Idempotent.
if redis.call('GET', LOADING) ~= ARGV[1] then return 0 end
local users, rows = {}, {}
for i = 2, #ARGV, 2 do
  users[#users + 1] = ARGV[i]
  rows[#rows + 1] = ARGV[i + 1]
end
remove_tickets(users, rows)
return 1
