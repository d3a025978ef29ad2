-- Draws the line between what the loader has yet to read and what it has to be told: clears the notes, those that a
-- loader left who died included.
-- KEYS     common.lua
-- ARGV[1]  the loader's token
-- Returns the notes up to now, or nil if the load is not this loader's any more.
if redis.call('GET', LOADING) ~= ARGV[1] then return false end
local notes = redis.call('SMEMBERS', UNDONE)
redis.call('DEL', UNDONE)
return notes
