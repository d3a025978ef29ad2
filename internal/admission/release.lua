-- Gives back what orders held that have ended in the database.
-- KEYS     common.lua
-- ARGV     for each order: user, order
-- Returns how many of them changed the gate: none if it is not loaded, and not those that their users do not hold.
-- Repeating it does no harm.
local released = 0
for i = 1, #ARGV, 2 do
  if release(ARGV[i], ARGV[i + 1]) then released = released + 1 end
end
if released > 0 then changed() end
return released
