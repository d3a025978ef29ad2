-- Admits a dead letter again under its order id, and queues it.
-- KEYS     those of common.lua; then the user's failed tickets
-- ARGV[1]  the dead letter's id in the stream of dead letters
-- ARGV[2]  order
-- ARGV[3]  user
-- ARGV[4]  limit
-- ARGV[5]  row without a queue position
-- Returns
--   "ok"         it is queued
--   "gone"       there is no such dead letter
--   "cold"       the gate is not loaded
--   "sold_out"   no unit is left
--   an order id  the newest of the user's orders, whose number has reached the limit
-- Unless it returns "ok", nothing changed.
local letter, order, user, limit, row = unpack(ARGV)
if #redis.call('XRANGE', DEAD, letter, letter) == 0 then return 'gone' end
if not loaded then return 'cold' end

local list = redis.call('HGET', BUYERS, user) or ''
local held = has_order(list, order)
if not held then
  if count_orders(list) >= tonumber(limit) then return newest_order(list) end
  if tonumber(redis.call('GET', STOCK)) <= 0 then return 'sold_out' end
end

row = assign_positions({row})[1] -- first: it fails if the counter is no number, and then nothing has changed
-- The user already holds the order if a slow worker has committed it since. The queue detects that.
if not held then
  redis.call('HSET', BUYERS, user, append_order(list, order))
  redis.call('DECR', STOCK)
  redis.call('HINCRBY', META, 'held', 1)
  redis.call('HINCRBY', META, 'sum', checksum_part(order))
  if loading then add_notes('+ ' .. user .. ' ' .. order) end
end
add_entry(row)
add_tickets({user}, {row})
redis.call('HDEL', KEYS[COMMON + 1], order)
redis.call('HINCRBY', META, 'queued', 1)
if loading then add_notes('in 1') end
redis.call('XDEL', DEAD, letter)
increment_version()
return 'ok'
