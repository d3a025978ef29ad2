-- Admits a dead letter again, under its order id, and queues it.
-- KEYS     common.lua; then the user's failed tickets
-- ARGV[1]  the letter's id in the dead stream
-- ARGV     then order, user, limit, row without a place
-- Returns "ok"; "gone" if there is no such letter; "cold"; "sold_out"; or the newest of the orders of this user, who
-- holds as many as the limit. Unless it is "ok" nothing changed.
local letter, order, user, limit, row = unpack(ARGV)
if #redis.call('XRANGE', DEAD, letter, letter) == 0 then return 'gone' end
if not loaded then return 'cold' end

local list = redis.call('HGET', BUYERS, user) or ''
local held = has(list, order)
if not held then
  if count(list) >= tonumber(limit) then return newest(list) end
  if tonumber(redis.call('GET', STOCK)) <= 0 then return 'sold_out' end
end

row = placed({row})[1] -- first: where the counter is no number, nothing has changed
-- An order that is held became one in spite of all, by a worker who was slow. The queue will find that out.
if not held then
  redis.call('HSET', BUYERS, user, append(list, order))
  redis.call('DECR', STOCK)
  redis.call('HINCRBY', META, 'held', 1)
  redis.call('HINCRBY', META, 'sum', digits(order))
  if loading then note('+ ' .. user .. ' ' .. order) end
end
redis.call('XADD', STREAM, '*', 'rows', row)
enqueue({user}, {row})
redis.call('HDEL', KEYS[COMMON + 1], order)
redis.call('HINCRBY', META, 'queued', 1)
if loading then note('in 1') end
redis.call('XDEL', DEAD, letter)
changed()
return 'ok'
