-- Decides about purchases of one voucher in their order, and queues those that it admits.
-- KEYS     those of common.lua; then, for each row with a request key, the key's record
-- ARGV[1]  begin of the sale in ms, inclusive
-- ARGV[2]  end of the sale in ms, exclusive
-- ARGV[3]  most users of the shard with tickets
-- ARGV     then for each purchase: order, user, limit, row without a queue position. Without an order (0) it gets no unit.
-- Returns nil if the gate is cold, and then nothing changed. Otherwise it returns {number, answer, number, answer, ...}
-- with the number (from 1) of each purchase that is not admitted, and one of
--   "not_started"  "ended"  "sold_out"  "overloaded"
--   "unsure"       no unit is left, but Redis may have lost admissions since the gate was loaded, even one of this user
--   an order id    the newest of the user's orders, whose number has reached the limit
--   "same <id>"    the order that an earlier request with the same key placed
--   "mismatch"     a different request used the key
-- All others are admitted, by this call or by an earlier one with the same order id.
-- Idempotent for the same order ids.
local HEAD, WORDS = 3, 4
local ENTRY_ROWS = 64 -- most rows in one entry
local KEY_TTL = 10 -- seconds; longer than the call whose database lookup of the key came before this one
if not loaded then return false end

local buyers, refused = (#ARGV - HEAD) / WORDS, {}
local function refuse(i, answer)
  refused[#refused + 1] = i
  refused[#refused + 1] = answer
end

local time = tonumber(server_time_ms())
local closed = time < tonumber(ARGV[1]) and 'not_started' or time >= tonumber(ARGV[2]) and 'ended'

local users, lists = {}, {}
for i = 1, buyers do users[i] = ARGV[HEAD + (i - 1) * WORDS + 2] end
for i, list in ipairs(redis.call('HMGET', BUYERS, unpack(users))) do lists[users[i]] = list or '' end

-- Returns the order that was placed under a request key, and whether the same request placed it; nil if there is none.
-- The key's record covers the first seconds, and the ticket the time in the queue. After that the database has the key.
local function find_keyed_order(record, user, key, request)
  local order, earlier = string.match(redis.call('GET', record) or '', '^(%d+) (.*)$')
  if not order then
    for line in string.gmatch(redis.call('HGET', QUEUED, user) or '', '[^\n]+') do
      local from = string.find(line, '#' .. key, 1, true)
      if from then
        order, earlier = string.match(line, '^%d+'), string.sub(line, from + 1 + #key, from + #key + #request)
      end
    end
  end
  return order, earlier == request
end

-- The answer when no unit is left, once it is known.
local no_unit
local units = tonumber(redis.call('GET', STOCK))
local free_tickets = tonumber(ARGV[3]) - redis.call('HLEN', QUEUED)
local admitted, rows, notes, sum, keyed = {}, {}, {}, 0, 0
for i = 1, buyers do
  local order, user, limit, row = unpack(ARGV, HEAD + (i - 1) * WORDS + 1, HEAD + i * WORDS)
  local list = lists[user]
  local key, request = string.match(row, '#(' .. string.rep('%S', 22) .. ')(%S+)')
  local before, same
  if key then
    keyed = keyed + 1
    before, same = find_keyed_order(KEYS[COMMON + keyed], user, key, request)
  end
  if not has_order(list, order) then
    if closed then
      refuse(i, closed)
    elseif before and before ~= order then
      refuse(i, same and 'same ' .. before or 'mismatch')
    elseif count_orders(list) >= tonumber(limit) then
      refuse(i, newest_order(list))
    elseif order == '0' or #rows >= units then
      no_unit = no_unit or has_all_admissions() and 'sold_out' or 'unsure'
      refuse(i, no_unit)
    elseif #rows >= free_tickets then
      refuse(i, 'overloaded')
    else
      lists[user] = append_order(list, order)
      admitted[#admitted + 1] = user
      rows[#rows + 1] = row
      notes[#notes + 1] = '+ ' .. user .. ' ' .. order
      sum = sum + checksum_part(order)
      if key then redis.call('SET', KEYS[COMMON + keyed], order .. ' ' .. request, 'EX', KEY_TTL) end
    end
  end
end

if #rows > 0 then
  assign_positions(rows)
  local held = {}
  for i, user in ipairs(admitted) do held[2 * i - 1], held[2 * i] = user, lists[user] end
  redis.call('HSET', BUYERS, unpack(held))
  add_tickets(admitted, rows)
  for i = 1, #rows, ENTRY_ROWS do
    add_entry(table.concat(rows, '\n', i, math.min(i + ENTRY_ROWS - 1, #rows)))
  end
  redis.call('DECRBY', STOCK, #rows)
  redis.call('HINCRBY', META, 'held', #rows)
  redis.call('HINCRBY', META, 'sum', sum)
  redis.call('HINCRBY', META, 'queued', #rows)
  if loading then add_notes('in ' .. #rows, unpack(notes)) end
  increment_version()
end
return refused
