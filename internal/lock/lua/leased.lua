-- Shared by the scripts of the leased semaphore; common.lua and semaphore.lua precede it.
-- KEYS[4]  holders: zset, "permits:id" of a hold -> end of its lease in ms of the server's clock
-- If LOCK is deleted, all holds end: they count only while the total exists.
local HOLDERS = KEYS[4]

local read_counters_with_expired = read_counters

local function permits_of(holder) return tonumber(string.match(holder, '^%d+')) end

-- As in semaphore.lua, after returning the permits whose leases have ended.
function read_counters()
  local total, held = read_counters_with_expired()
  if not total then return nil, 0 end
  local now_ms, before = format_int(math.floor(now_micros() / 1000)), held
  repeat
    local over = redis.call('ZRANGEBYSCORE', HOLDERS, '-inf', now_ms, 'LIMIT', 0, WINDOW)
    for _, holder in ipairs(over) do held = held - permits_of(holder) end
    if #over > 0 then redis.call('ZREM', HOLDERS, unpack(over)) end
  until #over < WINDOW
  if held ~= 0 and redis.call('EXISTS', HOLDERS) == 0 then held = 0 end -- HOLDERS was deleted
  if held ~= before then
    set_held(held)
    wake_admissible(total - held)
  end
  return total, held
end

function create_counters(total)
  redis.call('DEL', HOLDERS)
  redis.call('HSET', LOCK, 'total', format_int(total), 'held', 0)
end

function expires_soon()
  local first = redis.call('ZRANGE', HOLDERS, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) < now_micros() / 1000 + RECHECK
end

-- Returns the ms until at least `missing` permits expire, or -1 if that is beyond RECHECK.
local function ms_until_expired(missing)
  local now_ms = now_micros() / 1000
  local ends = redis.call('ZRANGEBYSCORE', HOLDERS, '-inf', format_int(now_ms + RECHECK), 'WITHSCORES', 'LIMIT', 0, WINDOW)
  for i = 1, #ends, 2 do
    missing = missing - permits_of(ends[i])
    if missing <= 0 or i + 1 == 2 * WINDOW then return math.max(0, ends[i + 1] - now_ms) end
  end
  return -1
end

