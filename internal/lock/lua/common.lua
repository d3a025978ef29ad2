-- Shared by the scripts of all locks: Go puts this file before each of them. A kind's own keys follow KEYS[4], or
-- KEYS[3] if the kind has no fencing token; its own arguments follow ARGV[4].
-- KEYS[1]  lock: the lock itself; its type depends on the kind
-- KEYS[2]  queue: zset, waiter id -> arrival in microseconds of the server's clock
-- KEYS[3]  waiters: hash, waiter id -> "deadline in ms:what it wants"; a waiter that does not renew its entry before
--          the deadline counts as dead
-- KEYS[4]  fence: string, the last fencing token (only kinds that have tokens)
-- ARGV[1]  prefix of the wake channels' names; the client's id follows it
-- ARGV[2]  id of the attempt, "client:number"; it identifies the waiter and later the hold
-- ARGV[3]  lease in ms
-- ARGV[4]  "wait": enqueue the caller if the lock is taken; "try": do not; empty in scripts that do not acquire
-- An acquire script returns
--   {1, token}       granted; the token is 0 if the kind has none
--   {0, ms, place}   taken; try again after ms unless woken before (negative: unknown); place is the position in the
--                    queue, from 0
-- and returns the same when it is repeated with the same id.
local LOCK, QUEUE, WAITERS, FENCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local WAKE, ID, LEASE, MODE = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local WAITER_TTL = 4000 -- ms without a sign of life after which a waiter counts as dead
local RECHECK = 1300 -- ms; the interval at which every waiter rechecks by itself
local FENCE_TTL = 3600000 -- ms that the fencing token is kept beyond the lease
local MAX_WAKES = 16

-- Returns the server's time in microseconds, the same value throughout a script.
local time
local function now_micros()
  if not time then
    local t = redis.call('TIME')
    time = t[1] * 1000000 + t[2]
  end
  return time
end

local function format_int(n) return string.format('%.0f', n) end

-- Lets the rest of a script write at Redis's memory limit, where commands that may grow are refused unless the script has
-- written before. To be called first by scripts that renew or end something, which must not fail then. No id is empty.
local function write_at_memory_limit() redis.call('HDEL', WAITERS, '') end

-- Returns the token of a new holder. It is greater than every earlier one, even if the server lost its data or its
-- clock was set back.
local function new_token()
  local token = now_micros()
  local last = tonumber(redis.call('SET', FENCE, format_int(token), 'PX', FENCE_TTL + LEASE, 'GET') or 0)
  if last >= token then
    token = last + 1
    redis.call('SET', FENCE, format_int(token), 'PX', FENCE_TTL + LEASE)
  end
  return token
end

-- Removes a waiter from the queue.
local function dequeue(id)
  if redis.call('ZREM', QUEUE, id) == 1 then redis.call('HDEL', WAITERS, id) end
end

-- Returns the first n live waiters as {id=, wants=, deadline=}, in the order of the queue. Removes the dead waiters
-- before and among them.
local function live_waiters(n)
  local found, count, now_ms = {}, n, nil
  while #found < n do
    local ids = redis.call('ZRANGE', QUEUE, #found, #found + count - 1)
    if #ids == 0 then break end
    count = 16 -- the first read contained dead waiters
    now_ms = now_ms or now_micros() / 1000
    for _, id in ipairs(ids) do
      local entry = redis.call('HGET', WAITERS, id) or ''
      local deadline, wants = string.match(entry, '^(%d+):(.*)$')
      deadline = tonumber(deadline or 0)
      if deadline > now_ms + WAITER_TTL + 1 then -- the clock was set back; a dead waiter would block the queue as long
        deadline = math.floor(now_ms + WAITER_TTL)
        redis.pcall('HSET', WAITERS, id, format_int(deadline) .. ':' .. wants) -- refused at the memory limit
      end
      if deadline > now_ms then
        found[#found + 1] = {id = id, wants = wants, deadline = deadline}
        if #found == n then break end
      else
        dequeue(id)
      end
    end
  end
  return found
end

-- Returns the id of the client to which a waiter or hold belongs.
local function client_of(id) return string.match(id, '^[^:]*') end

-- Sends a waiter the message to try again. Returns whether a client received it; in a cluster, only subscribers of this
-- node count. A Redis user may lack the permission for the channel. An error would end the script halfway, so none is
-- raised, and the waiter rechecks by itself.
local function wake(id)
  local receivers = redis.pcall('PUBLISH', WAKE .. client_of(id), id)
  return type(receivers) == 'number' and receivers > 0
end

-- Wakes the first waiter. If its client does not receive the message, wakes the next one whose client does.
local function wake_next()
  local first = live_waiters(1)[1]
  if not first or wake(first.id) then return end
  for place, waiter in ipairs(live_waiters(MAX_WAKES)) do
    if place > 1 and wake(waiter.id) then return end
  end
end

-- Removes and returns the successor to which a release hands the lock over: the first waiter, provided that it belongs
-- to ID's client. That client learns it from the release's reply, {1 or 0 as without a successor, the successor's id,
-- its token}. Returns nil if the release has to wake a waiter instead.
local function take_successor()
  local first = live_waiters(1)[1]
  if not first or client_of(first.id) ~= client_of(ID) then return nil end
  dequeue(first.id)
  return first
end

-- Wakes the first waiter if the lock becomes free in ms milliseconds, before that waiter rechecks by itself: the time
-- that it received earlier may be longer.
local function wake_first_before(ms)
  if ms < RECHECK then wake_next() end
end

-- Wakes the waiters of an owner that has just got the lock, because they can follow at once. The entry of a waiter that
-- has an owner ends with ":owner"; without an owner it ends with ":".
local function wake_waiters_of(owner)
  if owner == '' then return end
  local all = redis.call('HGETALL', WAITERS)
  for i = 1, #all, 2 do
    local deadline, whose = string.match(all[i + 1], '^(%d+):[^:]*:(.*)$')
    if whose == owner and tonumber(deadline) > now_micros() / 1000 then wake(all[i]) end
  end
end

-- Puts the caller into the queue, or extends its deadline if it is there already. The expiry of the two keys is
-- extended for every returning waiter and for the first arrival of each second, so that they outlast every live waiter.
local function enqueue(wants)
  local now = now_micros()
  local last = tonumber(redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2]) or 0
  local arrival = math.max(now, last + 1) -- strictly increasing, even if the clock is set back
  local new = redis.call('ZADD', QUEUE, 'NX', format_int(arrival), ID) == 1
  redis.call('HSET', WAITERS, ID, format_int(now / 1000 + WAITER_TTL) .. ':' .. wants)
  if not new or math.floor(now / 1000000) ~= math.floor(last / 1000000) then
    redis.call('PEXPIRE', QUEUE, WAITER_TTL + 3000)
    redis.call('PEXPIRE', WAITERS, WAITER_TTL + 3000)
  end
end

-- Builds the reply of an acquire that failed; ms is the latest time at which the lock becomes free, negative if
-- unknown. The place in the queue is only computed if that is soon.
local function deny(ms, wants)
  if MODE ~= 'wait' then return {0, ms, 0} end
  enqueue(wants)
  if ms < 0 or ms >= RECHECK then return {0, ms, 0} end
  return {0, ms, redis.call('ZRANK', QUEUE, ID)}
end

