-- Ends a load: applies the notes since the mark to what was built, and puts it in place. If there are more notes than
-- one call may apply, it applies the oldest to the table being built, and must be called again.
-- KEYS     those of common.lua; then the table of the buyers and the loans
-- ARGV[1]  token of the load
-- ARGV[2]  most notes that one call applies
-- ARGV[3]  number of users that the table must have
-- ARGV[4]  stock
-- ARGV[5]  held
-- ARGV[6]  queued
-- ARGV[7]  sum
-- ARGV[8]  epoch of the loans; empty for a gate of one segment
-- ARGV[9]  generation; empty to keep that of the gate
-- ARGV[10] history of the server at the begin of the load
-- Returns
--   {}                                 the gate is in place
--   {users, stock, held, queued, sum}  notes are left: the number of users now in the table, and what to add to the
--                                      other four before the next call
--   nil                                this load has lost its lease, its table expired, or another server has taken
--                                      over, and nothing changed
local token, most, users, stock, held, queued, sum, epoch, generation, history = unpack(ARGV)
local TABLE, LOANS = unpack(KEYS, COMMON + 1)
if redis.call('GET', LOADING) ~= token or redis.call('HLEN', TABLE) ~= tonumber(users) then return false end
if server_history() ~= history then return false end

local delta = {stock = 0, held = 0, queued = 0, sum = 0}

-- Adds (n = 1) or removes (n = -1) an order. It does nothing if the snapshot contains the change already.
local function change_order(user, order, n)
  local list = redis.call('HGET', TABLE, user) or ''
  if has_order(list, order) == (n > 0) then return end
  store_orders(TABLE, user, n > 0 and append_order(list, order) or remove_order(list, order))
  delta.stock = delta.stock - n
  delta.held = delta.held + n
  delta.sum = delta.sum + n * checksum_part(order)
end

for _, note in ipairs(redis.call('LRANGE', NOTES, 0, most - 1)) do
  local kind, first, second = string.match(note, '^(%S+) (%S+) ?(%S*)$')
  if kind == '+' then change_order(first, second, 1)
  elseif kind == '-' then change_order(first, second, -1)
  elseif kind == 'in' then delta.queued = delta.queued + first
  else delta.queued = delta.queued - first end
end
redis.call('LTRIM', NOTES, most, -1)
if redis.call('EXISTS', NOTES) == 1 then
  redis.call('PEXPIRE', TABLE, NOTES_TTL)
  return {redis.call('HLEN', TABLE), delta.stock, delta.held, delta.queued, delta.sum}
end

redis.call('UNLINK', BUYERS) -- RENAME would delete the old table synchronously
if redis.call('EXISTS', TABLE) == 1 then
  redis.call('RENAME', TABLE, BUYERS)
  redis.call('PERSIST', BUYERS)
end
-- The version starts at the time in microseconds, so that it is new even after Redis lost the previous one.
local t = redis.call('TIME')
local version = string.format('%s%06d', t[1], tonumber(t[2]))
redis.call('SET', STOCK, stock)
redis.call('INCRBY', STOCK, delta.stock)
redis.call('HSET', META, 'held', held, 'queued', queued, 'sum', sum, 'version', version, 'built', version)
if generation ~= '' then redis.call('HSET', META, 'generation', generation, 'history', history) end
redis.call('HINCRBY', META, 'held', delta.held)
redis.call('HINCRBY', META, 'queued', delta.queued)
redis.call('HINCRBY', META, 'sum', delta.sum)
redis.call('UNLINK', LOANS) -- units on their way are in the new stock
if epoch ~= '' then redis.call('HSET', LOANS, 'epoch', epoch) end
abort_load() -- it is complete
return {}
