-- Takes permits of a semaphore, which stay taken until they are released. Keys, arguments and answer are those of
-- common.lua, and
-- KEYS[4]  done  string: what became of ID, "taken" or "undone"; expires, after Go has ceased to ask
-- ARGV[5]  permits
local DONE, n = KEYS[4], tonumber(ARGV[5])
local became = redis.call('GET', DONE)
if became == 'taken' then -- the answer to the first time was lost
  forget(ID)
  return {1, 0}
end
if became then return {0, -1, 0} end -- overtaken by its undo: nobody hears this
local total, held = state()
local free = (total or 0) - held
if not turn(free, n) then return refuse(n, -1) end
hold(held + n)
redis.call('SET', DONE, 'taken', 'PX', 30000)
admitted(free - n)
return {1, 0}
