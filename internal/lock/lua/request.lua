-- Shared by scripts that change something without acquiring a lock, so that a request is executed once however often it
-- is sent. It follows common.lua and, for a semaphore, the kind's own shared script.
-- KEYS[last]  done: string, the reply that this request received; its name contains the request's id; it expires
-- Returns the remembered reply, without any change, if the request was executed before.
local DONE = KEYS[#KEYS]
local REMEMBER = 30000 -- ms; Go repeats a request for a third of this time

do
  local answered = redis.call('GET', DONE)
  if answered then return tonumber(answered) end
end

local function remember(n)
  redis.call('SET', DONE, format_int(n), 'PX', REMEMBER)
  return n
end

