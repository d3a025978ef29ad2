-- What scripts share that change something without taking a lock; common.lua is before it, and a kind's own.
-- KEYS[last]  done  string: what this request was answered; its id is in the key's name. Expires
-- A request that was executed is answered as it was then, and changes nothing.
local DONE = KEYS[#KEYS]
local REMEMBER = 30000 -- ms; Go repeats a request for a third of it

do
  local answered = redis.call('GET', DONE)
  if answered then return tonumber(answered) end
end

local function answer(n)
  redis.call('SET', DONE, int(n), 'PX', REMEMBER)
  return n
end

