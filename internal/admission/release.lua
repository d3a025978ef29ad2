-- Gives back what a cancelled order held.
-- KEYS     common.lua
-- ARGV[1]  user
-- ARGV[2]  order
-- Returns 1 if the gate changed, 0 if it is not loaded or the user holds no such order.
-- Repeating it does no harm.
if not release(ARGV[1], ARGV[2]) then return 0 end
changed()
return 1
