-- Ends a load: what was built becomes the gate, less and more what was noted since the mark. Where there are more notes
-- than one call may work off, it adds the oldest to the table that is being built, and is to be called again.
-- KEYS     common.lua; then the table of the buyers
-- ARGV[1]  the loader's token
-- ARGV[2]  how many notes one call may work off
-- ARGV[3]  how many users the table must have
-- ARGV[4]  stock
-- ARGV[5]  held
-- ARGV[6]  queued
-- ARGV[7]  sum
-- Returns an empty list if the gate is in place; if there are notes left, how many users the table has now, and what to
-- add to stock, held, queued and sum; nil if the load is not this loader's any more or its table expired, and nothing
-- changed.
local token, most, users, stock, held, queued, sum = unpack(ARGV)
local TABLE = KEYS[COMMON + 1]
if redis.call('GET', LOADING) ~= token or redis.call('HLEN', TABLE) ~= tonumber(users) then return false end

local more = {stock = 0, held = 0, queued = 0, sum = 0} -- of each
local function hold(user, order, n)
  local list = redis.call('HGET', TABLE, user) or ''
  if has(list, order) == (n > 0) then return end -- the snapshot has it already
  put(TABLE, user, n > 0 and append(list, order) or without(list, order))
  more.stock = more.stock - n
  more.held = more.held + n
  more.sum = more.sum + n * digits(order)
end

for _, what in ipairs(redis.call('LRANGE', NOTES, 0, most - 1)) do
  local kind, first, second = string.match(what, '^(%S+) (%S+) ?(%S*)$')
  if kind == '+' then hold(first, second, 1)
  elseif kind == '-' then hold(first, second, -1)
  elseif kind == 'in' then more.queued = more.queued + first
  else more.queued = more.queued - first end
end
redis.call('LTRIM', NOTES, most, -1)
if redis.call('EXISTS', NOTES) == 1 then
  redis.call('PEXPIRE', TABLE, NOTES_TTL)
  return {redis.call('HLEN', TABLE), more.stock, more.held, more.queued, more.sum}
end

redis.call('UNLINK', BUYERS) -- renaming over it would delete it here and now
if redis.call('EXISTS', TABLE) == 1 then
  redis.call('RENAME', TABLE, BUYERS)
  redis.call('PERSIST', BUYERS)
end
-- The version begins with the time in microseconds, so that it has not been there before, though Redis forgot.
local t = redis.call('TIME')
local version = string.format('%s%06d', t[1], tonumber(t[2]))
redis.call('SET', STOCK, stock)
redis.call('INCRBY', STOCK, more.stock)
redis.call('HSET', META, 'held', held, 'queued', queued, 'sum', sum, 'version', version, 'built', version)
redis.call('HINCRBY', META, 'held', more.held)
redis.call('HINCRBY', META, 'queued', more.queued)
redis.call('HINCRBY', META, 'sum', more.sum)
spoil()
return {}
