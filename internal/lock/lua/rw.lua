-- Shared by the scripts of the read-write lock; common.lua precedes it. Holds are zsets, id -> deadline in ms of the
-- server's clock, because there may be many readers.
-- KEYS[1]  lock: the write holds, all of one owner; while there are any, only that owner may read
-- KEYS[5]  readers: the read holds
-- KEYS[6]  writer: string, the owner of the write holds
-- KEYS[7]  reads: the read holds of the caller's owner; missing if the caller has no owner
-- ARGV[5]  the owner; if empty, the id of the attempt serves as one
-- A waiter's entry wants "r<lease>:owner" or "w<lease>:owner".
local READERS, WRITER, READS = KEYS[5], KEYS[6], KEYS[7]
local OWNER = ARGV[5] ~= '' and ARGV[5] or ID
local now_ms = now_micros() / 1000

-- Returns the latest deadline in a set of holds, or nil if all of them have passed.
local function last_deadline(set)
  local last = set and tonumber(redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')[2])
  return last and last > now_ms and last or nil
end

-- Returns whether ID has a hold in a set whose lease has not ended.
local function has_live_hold(set)
  local deadline = redis.call('ZSCORE', set, ID)
  return deadline and tonumber(deadline) > now_ms
end

-- Sets the deadline of ID's hold in a set to ms from now, or removes the hold if ms is nil. Removes expired holds and
-- lets the set expire with the last of the others. Returns the ms until then, or nil if none is left.
local function set_hold(set, ms)
  if ms then
    local known = MODE ~= '' and redis.call('ZSCORE', set, ID) -- a repetition must not shorten an extended lease
    if not known or tonumber(known) < now_ms + ms then redis.call('ZADD', set, format_int(now_ms + ms), ID) end
  else
    redis.call('ZREM', set, ID)
  end
  redis.call('ZREMRANGEBYSCORE', set, '-inf', format_int(math.floor(now_ms)))
  local last = last_deadline(set)
  if not last then return nil end
  local ttl = format_int(math.ceil(last - now_ms))
  redis.call('PEXPIRE', set, ttl)
  return ttl
end

local function set_write_hold(ms)
  local ttl = set_hold(LOCK, ms)
  if not ttl then
    redis.call('DEL', WRITER)
  elseif ms then
    redis.call('SET', WRITER, OWNER, 'PX', ttl)
  end
end

local function set_read_hold(ms)
  set_hold(READERS, ms)
  if READS then set_hold(READS, ms) end
end

-- Returns whether there is a writer, and whether it is the caller's owner.
local function writer_state()
  if not last_deadline(LOCK) then return false, false end
  return true, redis.call('GET', WRITER) == OWNER
end

-- Returns the last writer's token and extends its expiry beyond this lease, so that it does not change while the lock
-- is held.
local function last_token()
  local last = tonumber(redis.call('GET', FENCE))
  if not last then return new_token() end
  local ttl = FENCE_TTL + LEASE
  if redis.call('PTTL', FENCE) < ttl then redis.call('PEXPIRE', FENCE, ttl) end
  return last
end

-- Returns the readers at the head of the queue that precede the first waiting writer, and that writer, if there is one.
-- Ignores ID and everything behind it.
local function readers_before_writer()
  local n = 4
  while true do
    local readers, line = {}, live_waiters(n)
    for _, waiter in ipairs(line) do
      if waiter.id == ID then return readers end
      if string.sub(waiter.wants, 1, 1) == 'w' then return readers, waiter end
      readers[#readers + 1] = waiter
    end
    if #line < n then return readers end
    n = n * 8
  end
end

-- Builds the reply of an acquire that failed; ms is that of deny, side is 'r' or 'w'.
local function refuse(ms, side) return deny(ms, side .. ARGV[3] .. ':' .. ARGV[5]) end

-- Wakes the first waiter if a lease ends before that waiter rechecks by itself: the time it received earlier may be
-- longer.
local function wake_first_before_recheck()
  local ends = math.max(last_deadline(LOCK) or 0, last_deadline(READERS) or 0)
  if ends == 0 or ends - now_ms >= RECHECK then return end
  local first = live_waiters(1)[1]
  if first then wake(first.id) end
end

-- Wakes every waiter that can be admitted now: all readers at the head of the queue, or the writer if the lock is free.
local function wake_admissible()
  wake_first_before_recheck()
  if last_deadline(LOCK) then return end
  local readers, writer = readers_before_writer()
  for _, reader in ipairs(readers) do wake(reader.id) end
  if writer and #readers == 0 and not last_deadline(READERS) then wake(writer.id) end
end

