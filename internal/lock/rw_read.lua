-- Takes the lock for reading. Keys, arguments and answer are those of common.lua and rw.lua; the token is the last
-- writer's. Who writes or reads already gets in whoever waits; else nobody passes a writer who came before.
local taken, mine = writing()
if taken and not mine then return refuse(latest(LOCK) - at, 'r') end
local again = mine or latest(READS)
if not again and not has(READERS) then
  local _, writer = front()
  if writer then return refuse(writer.deadline - at, 'r') end
end
read(LEASE)
if MODE == 'wait' then forget(ID) end
tell()
if not again then wake_followers(ARGV[5]) end -- also a writer: it is to hear that it would wait for itself
return {1, token()}
