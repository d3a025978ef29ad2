-- Takes tickets out whose rows are in no entry of the stream: somebody cut it.
-- KEYS     common.lua
-- ARGV[1]  the loader's token
-- ARGV     then for each row: user, row
-- Returns 1, or 0 if the load is not this loader's any more, and nothing changed. Repeating it does no harm.
if redis.call('GET', LOADING) ~= ARGV[1] then return 0 end
local users, rows = {}, {}
for i = 2, #ARGV, 2 do
  users[#users + 1] = ARGV[i]
  rows[#rows + 1] = ARGV[i + 1]
end
dequeue(users, rows)
return 1
