-- Shared by the scripts of the reentrant lock; common.lua precedes it. LOCK is a hash:
--   owner, token  the current owner and its fencing token
--   hold:<id>     the deadline of that hold in ms of the server's clock
-- ARGV[5]  the owner; if empty, the id of the attempt serves as one
-- A waiter's entry wants "lease:owner".
local OWNER = ARGV[5] ~= '' and ARGV[5] or ID
local now_ms = now_micros() / 1000

-- Returns the owner, the token and the deadlines of the holds by id; nil, nil, {} if the lock is free. Removes expired
-- holds: each hold has a lease of its own, and LOCK lasts until the last of them.
local function read_holds()
  local fields, holds = {}, {}
  local all = redis.call('HGETALL', LOCK)
  for i = 1, #all, 2 do
    local id = string.match(all[i], '^hold:(.*)$')
    if not id then
      fields[all[i]] = all[i + 1]
    elseif tonumber(all[i + 1]) > now_ms then
      holds[id] = tonumber(all[i + 1])
    else
      redis.call('HDEL', LOCK, all[i])
    end
  end
  if not next(holds) then return nil, nil, holds end
  return fields.owner, tonumber(fields.token), holds
end

-- Makes LOCK expire with the last of its holds. `before` is the number of ms that it would have lasted; negative if it
-- did not exist.
local function expire_with_last_hold(holds, before)
  local last = 0
  for _, deadline in pairs(holds) do last = math.max(last, deadline) end
  redis.call('PEXPIRE', LOCK, format_int(math.ceil(last - now_ms)))
  if before < 0 or last - now_ms < before then wake_first_before(last - now_ms) end -- new, or ends sooner
end

-- Makes ID's hold end LEASE ms from now.
local function set_hold(owner, token, holds)
  local before = next(holds) and redis.call('PTTL', LOCK) or -1
  holds[ID] = now_ms + LEASE
  redis.call('HSET', LOCK, 'owner', owner, 'token', format_int(token), 'hold:' .. ID, format_int(holds[ID]))
  expire_with_last_hold(holds, before)
end
