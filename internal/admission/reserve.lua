-- Decides for buyers of one voucher, in their order, and queues those who are admitted.
-- KEYS     common.lua; then for each row the user's tickets
-- ARGV[1]  begin of the sale in ms, inclusive
-- ARGV[2]  end of the sale in ms, exclusive
-- ARGV[3]  how many entries the stream may have
-- ARGV[4]  voucher
-- ARGV     then for each row: order, user, amount, limit, at in ms, reply
-- Returns nil if the gate is cold, and nothing was decided; else for each row
--   "ok"           admitted, now or by an earlier call with the same order
--   "not_started"  "ended"  "sold_out"  "overloaded"
--   an order id    the newest of the orders of this user, who holds as many as the limit
-- Repeating it with the same orders changes nothing.
local HEAD, ROW = 4, 6
if not loaded then return false end

local rows, answers = #KEYS - 7, {}
local time = tonumber(now())
local closed = time < tonumber(ARGV[1]) and 'not_started' or time >= tonumber(ARGV[2]) and 'ended'
if closed then
  for i = 1, rows do answers[i] = closed end
  return answers
end

local users, lists = {}, {}
for i = 1, rows do users[i] = ARGV[HEAD + (i - 1) * ROW + 2] end
for i, list in ipairs(redis.call('HMGET', BUYERS, unpack(users))) do lists[users[i]] = list or '' end

local units = tonumber(redis.call('GET', STOCK))
local room = tonumber(ARGV[3]) - redis.call('XLEN', STREAM)
local voucher, buyers, admitted = ARGV[4], {}, 0
for i = 1, rows do
  local order, user, amount, limit, at, reply = unpack(ARGV, HEAD + (i - 1) * ROW + 1, HEAD + i * ROW)
  local list = lists[user]
  if has(list, order) then
    answers[i] = 'ok'
  elseif count(list) >= tonumber(limit) then
    answers[i] = newest(list)
  elseif units - admitted <= 0 then
    answers[i] = 'sold_out'
  elseif room - admitted <= 0 then
    answers[i] = 'overloaded'
  else
    enqueue(KEYS[7 + i], order, user, voucher, amount, limit, at, reply)
    lists[user] = append(list, order)
    buyers[#buyers + 1] = user
    buyers[#buyers + 1] = lists[user] -- of two rows of one user the later one is written last
    admitted = admitted + 1
    answers[i] = 'ok'
  end
end

if admitted > 0 then
  redis.call('HSET', BUYERS, unpack(buyers))
  redis.call('DECRBY', STOCK, admitted)
  redis.call('HINCRBY', META, 'held', admitted)
  redis.call('HINCRBY', META, 'queued', admitted)
  changed()
end
return answers
