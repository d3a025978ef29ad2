-- Returns the units of orders that have ended in the database.
-- KEYS     those of common.lua
-- ARGV     for each order: user, order
-- Returns the number of orders that changed the gate: 0 on a cold gate, and without the orders that their users do not
-- hold.
-- Idempotent.
local released = 0
for i = 1, #ARGV, 2 do
  if release_order(ARGV[i], ARGV[i + 1]) then released = released + 1 end
end
if released > 0 then increment_version() end
return released
