-- Marks the moment up to which the loader has read the stream: returns the rest of the stream and the notes, and clears
-- the notes, those of an abandoned load included. Notes from now on describe changes after the mark.
-- KEYS     those of common.lua
-- ARGV[1]  token of the load
-- ARGV[2]  start of the part of the stream that the loader has not read, as XRANGE takes it
-- ARGV[3]  most entries that this part may have
-- Returns
--   {notes, entries, stock}  the notes so far, the entries of that part, and the stock of the gate, 0 if it is cold
--   {}                       that part has more entries, and nothing changed
--   nil                      this load has lost its lease, and nothing changed
if redis.call('GET', LOADING) ~= ARGV[1] then return false end
local last = redis.call('XRANGE', STREAM, ARGV[2], '+', 'COUNT', ARGV[3] + 1)
if #last > tonumber(ARGV[3]) then return {} end
local notes = redis.call('LRANGE', NOTES, 0, -1)
redis.call('UNLINK', NOTES)
return {notes, last, redis.call('GET', STOCK) or '0'}
