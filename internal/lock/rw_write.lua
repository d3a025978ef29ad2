-- Takes the lock for writing. Keys, arguments and answer are those of common.lua and rw.lua, and {-1, 0} says that
-- the owner reads, and so would wait for itself. Who writes already gets in; else all who came before go first.
local _, mine = writing()
if not mine then
  if latest(READS) then return {-1, 0} end
  local first = living(1)[1]
  local ends = math.max(latest(LOCK) or 0, latest(READERS) or 0, first and first.id ~= ID and first.deadline or 0)
  if ends > 0 then return refuse(ends - at, 'w') end
  fence()
end
write(LEASE)
if MODE == 'wait' then forget(ID) end
tell()
if not mine then wake_followers(ARGV[5]) end
return {1, token()}
