-- What the scripts of the reentrant lock share; common.lua is before it.

-- Writes the deadline of ID's hold, ms from now, or removes the hold if ms is nil. The lock then lasts as long as
-- the last of its holds does; it is gone if there is none. Returns whether it is there.
local function hold(ms)
  local at = now() / 1000
  if ms then
    redis.call('HSET', LOCK, 'hold:' .. ID, int(at + ms))
  else
    redis.call('HDEL', LOCK, 'hold:' .. ID)
  end
  local last, all = 0, redis.call('HGETALL', LOCK)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 5) == 'hold:' then
      local deadline = tonumber(all[i + 1])
      if deadline <= at then
        redis.call('HDEL', LOCK, all[i])
      else
        last = math.max(last, deadline)
      end
    end
  end
  if last == 0 then
    redis.call('DEL', LOCK)
    return false
  end
  redis.call('PEXPIRE', LOCK, int(math.ceil(last - at)))
  return true
end

-- Whether ID has a hold whose lease has not ended; the lock may outlive it.
local function held()
  local deadline = redis.call('HGET', LOCK, 'hold:' .. ID)
  return deadline and tonumber(deadline) > now() / 1000
end

