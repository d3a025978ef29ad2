-- Draws the line between what the loader reads and what the notes tell it: reads the end of the stream and clears the
-- notes, those of a loader that died included.
-- KEYS     common.lua
-- ARGV[1]  the loader's token
-- ARGV[2]  where the part of the stream begins that the loader has not read, as XRANGE has it
-- ARGV[3]  how many entries this part may have
-- Returns the notes up to now and the entries of that part; an empty list if there are more, and nothing changed; nil if
-- the load is not this loader's any more.
if redis.call('GET', LOADING) ~= ARGV[1] then return false end
local last = redis.call('XRANGE', STREAM, ARGV[2], '+', 'COUNT', ARGV[3] + 1)
if #last > tonumber(ARGV[3]) then return {} end
local notes = redis.call('LRANGE', NOTES, 0, -1)
redis.call('UNLINK', NOTES)
return {notes, last}
