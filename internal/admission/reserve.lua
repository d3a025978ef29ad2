-- Decides for buyers of one voucher, in their order, and queues those who are admitted.
-- KEYS     common.lua; then, for each buyer whose row has a request key, where the order of that key is noted
-- ARGV[1]  begin of the sale in ms, inclusive
-- ARGV[2]  end of the sale in ms, exclusive
-- ARGV[3]  how many users of the shard may have tickets
-- ARGV     then for each buyer: order, user, limit, row without a place
-- Returns nil if the gate is cold, and nothing was decided; else, for each buyer who is not admitted, his number (from
-- 1) and the answer:
--   "not_started"  "ended"  "sold_out"  "overloaded"
--   an order id    the newest of the orders of this user, who holds as many as the limit
--   "same <id>"    the order that an earlier request with the same key placed
--   "mismatch"     another request used the key
-- The others are admitted, now or by an earlier call with the same order.
-- Repeating it with the same orders changes nothing.
local HEAD, WORDS = 3, 4
local PARCEL = 64 -- rows in an entry at most
local KEY_TTL = 10 -- seconds; longer than the call that looked for the key in the database before this one
if not loaded then return false end

local buyers, refused = (#ARGV - HEAD) / WORDS, {}
local function refuse(i, answer)
  refused[#refused + 1] = i
  refused[#refused + 1] = answer
end

local time = tonumber(now())
local closed = time < tonumber(ARGV[1]) and 'not_started' or time >= tonumber(ARGV[2]) and 'ended'
if closed then
  for i = 1, buyers do refuse(i, closed) end
  return refused
end

local users, lists = {}, {}
for i = 1, buyers do users[i] = ARGV[HEAD + (i - 1) * WORDS + 2] end
for i, list in ipairs(redis.call('HMGET', BUYERS, unpack(users))) do lists[users[i]] = list or '' end

-- The order that was placed under the request key of a row, and whether by the same request; nil if there is none. It is
-- noted for a moment, and stands in the ticket while the order is queued. After that the database has it.
local function earlier(noted, user, key, request)
  local order, was = string.match(redis.call('GET', noted) or '', '^(%d+) (.*)$')
  if not order then
    for line in string.gmatch(redis.call('HGET', QUEUED, user) or '', '[^\n]+') do
      local from = string.find(line, '#' .. key, 1, true)
      if from then
        order, was = string.match(line, '^%d+'), string.sub(line, from + 1 + #key, from + #key + #request)
      end
    end
  end
  return order, was == request
end

local units = tonumber(redis.call('GET', STOCK))
local room = tonumber(ARGV[3]) - redis.call('HLEN', QUEUED)
local admitted, rows, notes, sum, keyed = {}, {}, {}, 0, 0
for i = 1, buyers do
  local order, user, limit, row = unpack(ARGV, HEAD + (i - 1) * WORDS + 1, HEAD + i * WORDS)
  local list = lists[user]
  local key, request = string.match(row, '#(' .. string.rep('%S', 22) .. ')(%S+)')
  local before, same
  if key then
    keyed = keyed + 1
    before, same = earlier(KEYS[COMMON + keyed], user, key, request)
  end
  if not has(list, order) then
    if before and before ~= order then
      refuse(i, same and 'same ' .. before or 'mismatch')
    elseif count(list) >= tonumber(limit) then
      refuse(i, newest(list))
    elseif #rows >= units then
      refuse(i, 'sold_out')
    elseif #rows >= room then
      refuse(i, 'overloaded')
    else
      lists[user] = append(list, order)
      admitted[#admitted + 1] = user
      rows[#rows + 1] = row
      notes[#notes + 1] = '+ ' .. user .. ' ' .. order
      sum = sum + digits(order)
      if key then redis.call('SET', KEYS[COMMON + keyed], order .. ' ' .. request, 'EX', KEY_TTL) end
    end
  end
end

if #rows > 0 then
  placed(rows)
  local held = {}
  for i, user in ipairs(admitted) do held[2 * i - 1], held[2 * i] = user, lists[user] end
  redis.call('HSET', BUYERS, unpack(held))
  enqueue(admitted, rows)
  for i = 1, #rows, PARCEL do
    redis.call('XADD', STREAM, '*', 'rows', table.concat(rows, '\n', i, math.min(i + PARCEL - 1, #rows)))
  end
  redis.call('DECRBY', STOCK, #rows)
  redis.call('HINCRBY', META, 'held', #rows)
  redis.call('HINCRBY', META, 'sum', sum)
  redis.call('HINCRBY', META, 'queued', #rows)
  if loading then note('in ' .. #rows, unpack(notes)) end
  changed()
end
return refused
