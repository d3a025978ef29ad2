-- What the scripts of the read-write lock share; common.lua is before it. Holds are zsets, id -> deadline in ms of
-- the server's clock, because there may be many readers:
-- KEYS[1]  lock     the write holds, all of one owner; while there are any, only that owner reads
-- KEYS[5]  readers  the read holds
-- KEYS[6]  writer   string: whose the write holds are
-- KEYS[7]  reads    the read holds of the caller's owner; not given if the caller has none
-- ARGV[5]  the owner, or '' for a stranger to everybody
-- A waiter wants "r<lease>:owner" or "w<lease>:owner".
local READERS, WRITER, READS = KEYS[5], KEYS[6], KEYS[7]
local ME = ARGV[5] ~= '' and ARGV[5] or ID
local at = now() / 1000

-- The deadline of the last of the holds in a set, or nil if no lease goes on.
local function latest(set)
  local last = set and tonumber(redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')[2])
  return last and last > at and last or nil
end

-- Whether ID has a hold in a set whose lease goes on.
local function has(set)
  local deadline = redis.call('ZSCORE', set, ID)
  return deadline and tonumber(deadline) > at
end

-- Writes the deadline of ID's hold into a set, ms from now, or removes the hold if ms is nil. Those whose lease has
-- ended are removed with it. The set lasts as long as the last of its holds; returns for how many ms, or nil.
local function hold(set, ms)
  if ms then
    local known = MODE ~= '' and redis.call('ZSCORE', set, ID) -- asked twice, and perhaps extended meanwhile
    if not known or tonumber(known) < at + ms then redis.call('ZADD', set, int(at + ms), ID) end
  else
    redis.call('ZREM', set, ID)
  end
  redis.call('ZREMRANGEBYSCORE', set, '-inf', int(math.floor(at)))
  local last = latest(set)
  if not last then return nil end
  local ttl = int(math.ceil(last - at))
  redis.call('PEXPIRE', set, ttl)
  return ttl
end

local function write(ms)
  local ttl = hold(LOCK, ms)
  if not ttl then
    redis.call('DEL', WRITER)
  elseif ms then
    redis.call('SET', WRITER, ME, 'PX', ttl)
  end
end

local function read(ms)
  hold(READERS, ms)
  if READS then hold(READS, ms) end
end

-- Whether somebody writes, and whether the caller does.
local function writing()
  if not latest(LOCK) then return false, false end
  return true, redis.call('GET', WRITER) == ME
end

-- The last writer's token. It outlives this lease, so that it stays the same for as long as somebody has the lock.
local function token()
  local last = tonumber(redis.call('GET', FENCE))
  if not last then return fence() end
  local ttl = FENCE_TTL + LEASE
  if redis.call('PTTL', FENCE) < ttl then redis.call('PEXPIRE', FENCE, ttl) end
  return last
end

-- The head of the queue as a reader sees it: the readers before the first who wants to write, and that one, if there
-- is one. What is behind ID does not count.
local function front()
  local n = 4
  while true do
    local readers, line = {}, living(n)
    for _, waiter in ipairs(line) do
      if waiter.id == ID then return readers end
      if string.sub(waiter.wants, 1, 1) == 'w' then return readers, waiter end
      readers[#readers + 1] = waiter
    end
    if #line < n then return readers end
    n = n * 8
  end
end

-- The answer of an acquire that failed; ms as for deny, side 'r' or 'w'.
local function refuse(ms, side) return deny(ms, side .. ARGV[3] .. ':' .. ARGV[5]) end

-- Tells the first of the queue to ask again if it may have to wait for less than it was told: it asks each RECHECK ms
-- anyway, so that only what ends sooner is news.
local function tell()
  local ends = math.max(latest(LOCK) or 0, latest(READERS) or 0)
  if ends == 0 or ends - at >= RECHECK then return end
  local first = living(1)[1]
  if first then wake(first.id) end
end

-- Wakes whoever can get in as things are: all readers at the head of the queue, or the writer, if all is free.
local function admit()
  tell()
  if latest(LOCK) then return end
  local readers, writer = front()
  for _, reader in ipairs(readers) do wake(reader.id) end
  if writer and #readers == 0 and not latest(READERS) then wake(writer.id) end
end

