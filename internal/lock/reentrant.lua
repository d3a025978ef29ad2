-- What the scripts of the reentrant lock share; common.lua is before it. LOCK is a hash:
--   owner, token  of whoever has it
--   hold:<id>     the deadline of that hold, ms of the server's clock
-- ARGV[5]  the owner, or '' for a stranger to everybody
-- What a waiter wants is "lease:owner".
local ME = ARGV[5] ~= '' and ARGV[5] or ID
local at = now() / 1000

-- The owner, the token, and the deadlines of the holds by id; nil, nil, {} if the lock is free. Holds that have
-- expired are removed: each has a lease of its own, and the lock may outlive it.
local function read()
  local fields, holds = {}, {}
  local all = redis.call('HGETALL', LOCK)
  for i = 1, #all, 2 do
    local id = string.match(all[i], '^hold:(.*)$')
    if not id then
      fields[all[i]] = all[i + 1]
    elseif tonumber(all[i + 1]) > at then
      holds[id] = tonumber(all[i + 1])
    else
      redis.call('HDEL', LOCK, all[i])
    end
  end
  if not next(holds) then return nil, nil, holds end
  return fields.owner, tonumber(fields.token), holds
end

-- Lets the lock last as long as the last of its holds. It would have lasted for so many ms; negative: not at all.
local function outlast(holds, before)
  local last = 0
  for _, deadline in pairs(holds) do last = math.max(last, deadline) end
  redis.call('PEXPIRE', LOCK, int(math.ceil(last - at)))
  if before < 0 or last - at < before then tell_end(last - at) end -- it is new, or ends sooner
end

-- Lets ID's hold end LEASE ms from now.
local function keep(owner, token, holds)
  local before = next(holds) and redis.call('PTTL', LOCK) or -1
  holds[ID] = at + LEASE
  redis.call('HSET', LOCK, 'owner', owner, 'token', int(token), 'hold:' .. ID, int(holds[ID]))
  outlast(holds, before)
end
