-- What the scripts of the leased semaphore share; common.lua and semaphore.lua are before it.
-- KEYS[4]  holders  zset: "permits:id" of a hold -> when its lease ends, ms of the server's clock
-- Who deletes LOCK ends all holds: they are known as long as the total is.
local HOLDERS = KEYS[4]

local counted = state

local function permits(holder) return tonumber(string.match(holder, '^%d+')) end

-- As before; permits whose lease is over have come back.
function state()
  local total, held = counted()
  if not total then return nil, 0 end
  local at, before = int(math.floor(now() / 1000)), held
  repeat
    local over = redis.call('ZRANGEBYSCORE', HOLDERS, '-inf', at, 'LIMIT', 0, WINDOW)
    for _, holder in ipairs(over) do held = held - permits(holder) end
    if #over > 0 then redis.call('ZREM', HOLDERS, unpack(over)) end
  until #over < WINDOW
  if held ~= 0 and redis.call('EXISTS', HOLDERS) == 0 then held = 0 end -- it was deleted
  if held ~= before then
    hold(held)
    admit(total - held)
  end
  return total, held
end

function create(total)
  redis.call('DEL', HOLDERS)
  redis.call('HSET', LOCK, 'total', int(total), 'held', 0)
end

function soon()
  local first = redis.call('ZRANGE', HOLDERS, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) < now() / 1000 + RECHECK
end

-- In how many ms leases will have ended that have so many permits; -1 if that is later than anybody asks.
local function moment(missing)
  local at = now() / 1000
  local ends = redis.call('ZRANGEBYSCORE', HOLDERS, '-inf', int(at + RECHECK), 'WITHSCORES', 'LIMIT', 0, WINDOW)
  for i = 1, #ends, 2 do
    missing = missing - permits(ends[i])
    if missing <= 0 or i + 1 == 2 * WINDOW then return math.max(0, ends[i + 1] - at) end
  end
  return -1
end

