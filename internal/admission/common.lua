-- What the scripts share. Go puts this file before each of them.
-- KEYS[1]  stock    string; it exists while the gate is loaded
-- KEYS[2]  buyers   hash: user -> order ids, comma-separated, the oldest first
-- KEYS[3]  meta     hash: held, queued, version, sum (of the digits() of the orders held), line (the last place given),
--                   built (the version of the last load)
-- KEYS[4]  loading  string: the token of the loader at work, on a gate that is cold or beside one that is loaded
-- KEYS[5]  notes    list, while a loader is at work: what happens to the gate, the oldest first; see note()
-- KEYS[6]  stream   of the shard's admissions; an entry has the rows of one voucher
-- KEYS[7]  queued   hash: user -> his rows in the stream
-- KEYS[8]  dead     stream of the shard's dead letters
-- A row is the text of an admission, which Go writes and reads; it begins with order, user, voucher and a space after
-- each, and ends with a space and its place in the voucher's line, from 1. Rows in one text have a line each.
-- Order ids are strings throughout: a Lua number holds only 53 bits.
local COMMON = 8
local STOCK, BUYERS, META, LOADING, NOTES, STREAM, QUEUED, DEAD = unpack(KEYS, 1, COMMON)
local GROUP = 'workers'
local FAILED_TTL = 86400 -- seconds
local NOTES_TTL = 60000 -- ms; more than a loader's lease

local loaded = redis.call('EXISTS', STOCK) == 1
local loading = redis.call('EXISTS', LOADING) == 1

-- Milliseconds of the server's clock, as a string.
local function now()
  local t = redis.call('TIME')
  return string.format('%s%03d', t[1], math.floor(tonumber(t[2]) / 1000))
end

-- A buyer's list of order ids.
local function count(list)
  if list == '' then return 0 end
  local _, commas = string.gsub(list, ',', '')
  return commas + 1
end

local function has(list, order)
  if list == '' then return false end
  return string.find(',' .. list .. ',', ',' .. order .. ',', 1, true) ~= nil
end

local function append(list, order)
  if list == '' then return order end
  return list .. ',' .. order
end

-- What an order id adds to the sum: its last nine digits.
local function digits(order)
  return tonumber(string.sub(order, -9))
end

local function newest(list)
  return string.match(list, '[^,]*$')
end

local function without(list, order)
  local rest = {}
  for id in string.gmatch(list, '[^,]+') do
    if id ~= order then rest[#rest + 1] = id end
  end
  return table.concat(rest, ',')
end

-- Writes a buyer's list; nobody is left in the hash without an order.
local function put(buyers, user, list)
  if list == '' then
    redis.call('HDEL', buyers, user)
  else
    redis.call('HSET', buyers, user, list)
  end
end

-- Appends notes for the loader at work. A note is one of
--   "+ user order"   the buyer holds the order and its unit from now on
--   "- user order"   the order was released
--   "in rows"        rows of the voucher were queued in new entries
--   "out rows entry" an entry left the stream, and so many of its rows are not queued any more
local function note(...)
  redis.call('RPUSH', NOTES, ...)
  redis.call('PEXPIRE', NOTES, NOTES_TTL)
end

-- Gives back the unit of an order and forgets its buyer, if the buyer holds that order. Says whether the gate
-- changed.
local function release(user, order)
  if loading then note('- ' .. user .. ' ' .. order) end
  if not loaded then return false end
  local list = redis.call('HGET', BUYERS, user)
  if not list or not has(list, order) then return false end
  put(BUYERS, user, without(list, order))
  redis.call('INCR', STOCK)
  redis.call('HINCRBY', META, 'held', -1)
  redis.call('HINCRBY', META, 'sum', 0 - digits(order)) -- and not "-0"
  return true
end

-- Ends the work of a loader without a result; it begins again.
local function spoil()
  redis.call('UNLINK', LOADING, NOTES)
  loading = false
end

-- Says to audits that the gate is another one than before.
local function changed()
  if loaded then redis.call('HINCRBY', META, 'version', 1) end
end

-- Gives rows the next places in the line.
local function placed(rows)
  local last = redis.call('HINCRBY', META, 'line', #rows) - #rows
  for i, row in ipairs(rows) do rows[i] = string.format('%s %.0f', row, last + i) end
  return rows
end

-- Adds rows to the tickets of their users.
local function enqueue(users, rows)
  local tickets, args = {}, {}
  for i, mine in ipairs(redis.call('HMGET', QUEUED, unpack(users))) do tickets[users[i]] = mine end
  for i, user in ipairs(users) do
    local mine = tickets[user]
    tickets[user] = mine and mine .. '\n' .. rows[i] or rows[i]
    args[2 * i - 1], args[2 * i] = user, tickets[user] -- of two rows of one user the later one is written last
  end
  redis.call('HSET', QUEUED, unpack(args))
end

-- A user's rows without the first that begins in this way.
local function less(rows, beginning)
  local lines = '\n' .. rows
  local from = string.find(lines, '\n' .. beginning, 1, true)
  if not from then return rows end
  local to = string.find(lines, '\n', from + 1, true) or #lines + 1
  return string.sub(string.sub(lines, 1, from - 1) .. string.sub(lines, to), 2)
end

-- Takes rows out of the tickets of their users.
local function dequeue(users, beginnings)
  if #users == 0 then return end
  local tickets, kept, empty = {}, {}, {}
  for i, mine in ipairs(redis.call('HMGET', QUEUED, unpack(users))) do tickets[users[i]] = mine or '' end
  for i, user in ipairs(users) do tickets[user] = less(tickets[user], beginnings[i]) end
  for user, mine in pairs(tickets) do
    if mine == '' then
      empty[#empty + 1] = user
    else
      kept[#kept + 1] = user
      kept[#kept + 1] = mine
    end
  end
  if #empty > 0 then redis.call('HDEL', QUEUED, unpack(empty)) end
  if #kept > 0 then redis.call('HSET', QUEUED, unpack(kept)) end
end
