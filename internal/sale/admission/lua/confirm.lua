-- Confirms that an entry is still in the stream, so that the gate has its admissions.
-- KEYS     those of common.lua
-- ARGV[1]  entry id
-- ARGV[2]  begin of its first row: order, user and voucher
-- Returns the generation of the gate, 0 if it has none; nil if the entry is not in the stream: it was settled, or Redis
-- lost it.
local entry, prefix = unpack(ARGV)
local found = redis.call('XRANGE', STREAM, entry, entry)[1]
if not found then return false end
for i = 1, #found[2], 2 do
  -- After a loss of data another entry may have the id.
  if found[2][i] == 'rows' and string.find(found[2][i + 1], prefix, 1, true) == 1 then
    return tonumber(redis.call('HGET', META, 'generation') or '0')
  end
end
return false
