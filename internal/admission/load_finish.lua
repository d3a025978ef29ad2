-- Ends a load: what was built becomes the gate, less what was released and settled since the mark.
-- KEYS     common.lua; then the table of the buyers
-- ARGV[1]  the loader's token
-- ARGV[2]  stock
-- ARGV[3]  held
-- ARGV[4]  queued
-- ARGV[5]  sum
-- ARGV[6]  how many users the table must have
-- Returns 1, or 0 if the load is not this loader's any more or its table expired, and nothing changed.
local token, stock, held, queued, sum, users = unpack(ARGV)
if redis.call('GET', LOADING) ~= token or redis.call('HLEN', KEYS[COMMON + 1]) ~= tonumber(users) then return 0 end
redis.call('DEL', BUYERS)
if tonumber(users) > 0 then
  redis.call('RENAME', KEYS[COMMON + 1], BUYERS)
  redis.call('PERSIST', BUYERS)
end

local back, left = 0, 0
for _, what in ipairs(redis.call('SMEMBERS', UNDONE)) do
  local user, order = string.match(what, '^(.+):(.+)$')
  local list = user and redis.call('HGET', BUYERS, user)
  if not user then
    left = left + tonumber(string.match(what, ' (%d+)$'))
  elseif list and has(list, order) then
    put(BUYERS, user, without(list, order))
    back = back + 1
    sum = sum - digits(order)
  end
end

-- The version begins with the time in microseconds, so that it has not been there before, though Redis forgot.
local t = redis.call('TIME')
redis.call('SET', STOCK, tonumber(stock) + back)
redis.call('HSET', META, 'held', tonumber(held) - back, 'queued', tonumber(queued) - left,
  'sum', sum, 'version', string.format('%s%06d', t[1], tonumber(t[2])))
redis.call('DEL', LOADING, UNDONE)
return 1
