-- Takes the lock for reading. Keys, arguments and answer are those of common.lua and rw.lua; the token is the last
-- writer's. Who writes or reads already gets in whoever waits; else nobody passes a writer who came before.
local taken, mine = writing()
if taken and not mine then return deny(latest(LOCK) - at, 'r') end
if not taken and not has(READERS) and not latest(READS) then
  local _, writer = front()
  if writer then return deny(writer.deadline - at, 'r') end
end
read(LEASE)
if MODE == 'wait' then forget(ID) end
tell()
return {1, token()}
