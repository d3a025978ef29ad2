-- What the scripts share. Go puts this file before each of them.
-- KEYS[1]  lock     the lock; its type is the kind's
-- KEYS[2]  queue    zset: waiter -> arrival, micros of the server's clock
-- KEYS[3]  waiters  hash: waiter -> "deadline in ms:what it wants"; who has not come back by then is dead
-- KEYS[4]  fence    string: the last fencing token (kinds with one)
-- ARGV[1]  what the names of the wake channels begin with; the client's id follows
-- ARGV[2]  id of the attempt, "client:number": of the waiter while it waits, of the hold afterwards
-- ARGV[3]  lease in ms
-- ARGV[4]  "wait": be queued if it cannot be had; "try": don't
-- From ARGV[5] on, and from KEYS[5] on, they are the kind's own.
--
-- An acquire returns {1, token} or {0, ms after which to ask again if not woken, place in the queue from 0}. A
-- script that sees its own id again answers as it did the first time.
local LOCK, QUEUE, WAITERS, FENCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local WAKE, ID, LEASE, MODE = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local PATIENCE = 4000 -- ms
local RECHECK = 1300 -- ms; each waiter comes back by itself so often
local FENCE_TTL = 3600000 -- ms beyond the lease
local MOST_WAKES = 16

-- Microseconds of the server's clock; the same throughout a script.
local time
local function now()
  if not time then
    local t = redis.call('TIME')
    time = t[1] * 1000000 + t[2]
  end
  return time
end

local function int(n) return string.format('%.0f', n) end

-- The token of a new holder: more than any before, also when the server has lost its data or its clock went back.
local function fence()
  local token = now()
  local last = tonumber(redis.call('SET', FENCE, int(token), 'PX', FENCE_TTL + LEASE, 'GET') or 0)
  if last >= token then
    token = last + 1
    redis.call('SET', FENCE, int(token), 'PX', FENCE_TTL + LEASE)
  end
  return token
end

-- Removes a waiter from the queue.
local function forget(id)
  if redis.call('ZREM', QUEUE, id) == 1 then redis.call('HDEL', WAITERS, id) end
end

-- The first n of the queue that are alive, as {id=, wants=, deadline=}. The dead before and among them are removed.
local function living(n)
  local found, look, at = {}, n, nil
  while #found < n do
    local ids = redis.call('ZRANGE', QUEUE, #found, #found + look - 1)
    if #ids == 0 then break end
    look = 16 -- some were dead
    at = at or now() / 1000
    for _, id in ipairs(ids) do
      local entry = redis.call('HGET', WAITERS, id) or ''
      local deadline, wants = string.match(entry, '^(%d+):(.*)$')
      if deadline and tonumber(deadline) > at then
        found[#found + 1] = {id = id, wants = wants, deadline = tonumber(deadline)}
        if #found == n then break end
      else
        forget(id)
      end
    end
  end
  return found
end

-- The client that an id is of.
local function client(id) return string.match(id, '^[^:]*') end

-- Tells a waiter to ask again. Says whether its client heard: in a cluster, whether it did so on this node.
local function wake(id)
  return redis.call('PUBLISH', WAKE .. client(id), id) > 0
end

-- Wakes the first of the queue, or the first whose client hears it.
local function wake_next()
  local first = living(1)[1]
  if not first or wake(first.id) then return end
  for place, waiter in ipairs(living(MOST_WAKES)) do
    if place > 1 and wake(waiter.id) then return end
  end
end

-- To whom a release leaves the lock: the first of the queue, if it is a waiter of ID's client, which hears of it by
-- the answer, {1 or 0 as without it, the waiter's id, its token}. It is not in the queue any more.
local function take_heir()
  local first = living(1)[1]
  if not first or client(first.id) ~= client(ID) then return nil end
  forget(first.id)
  return first
end

-- Wakes the first of the queue if the lock may be had in ms, sooner than it comes back by itself: what it was told
-- may be later than that.
local function tell_end(ms)
  if ms < RECHECK then wake_next() end
end

-- Wakes the waiters of an owner who just got in: they may follow. What a waiter wants that has an owner ends with
-- ":owner"; one that is a stranger to everybody has an empty one.
local function wake_followers(owner)
  if owner == '' then return end
  local all = redis.call('HGETALL', WAITERS)
  for i = 1, #all, 2 do
    local deadline, whose = string.match(all[i + 1], '^(%d+):[^:]*:(.*)$')
    if whose == owner and tonumber(deadline) > now() / 1000 then wake(all[i]) end
  end
end

-- Puts the caller into the queue, or says that it is still alive.
-- The two keys last at least as long as anybody in the queue is alive: each who comes in another second than the last
-- one before, and each who comes back, makes them last for another while.
local function enqueue(wants)
  local at = now()
  local last = tonumber(redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2]) or 0
  local arrival = math.max(at, last + 1) -- strictly in order, whatever the clock does
  local new = redis.call('ZADD', QUEUE, 'NX', int(arrival), ID) == 1
  redis.call('HSET', WAITERS, ID, int(at / 1000 + PATIENCE) .. ':' .. wants)
  if not new or math.floor(at / 1000000) ~= math.floor(last / 1000000) then
    redis.call('PEXPIRE', QUEUE, PATIENCE + 3000)
    redis.call('PEXPIRE', WAITERS, PATIENCE + 3000)
  end
end

-- The answer of an acquire that failed; ms is when the lock may be had at the latest, as far as is known. The place is
-- of interest only if that is soon.
local function deny(ms, wants)
  if MODE ~= 'wait' then return {0, ms, 0} end
  enqueue(wants)
  if ms < 0 or ms >= RECHECK then return {0, ms, 0} end
  return {0, ms, redis.call('ZRANK', QUEUE, ID)}
end

