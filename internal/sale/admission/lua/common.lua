-- Shared declarations and helpers. Go prepends this file to every other script.
-- KEYS[1]  stock    string: units that may still be admitted; the gate is loaded while this key exists
-- KEYS[2]  buyers   hash: user -> order ids, comma-separated, oldest first
-- KEYS[3]  meta     hash: held, queued, version, sum (of checksum_part() of the orders held), line (the last queue
--                   position assigned), built (the version of the last load), generation (of the sale in the database,
--                   as of the last load that raised it), history (the server_history() of that load)
-- KEYS[4]  loading  string: the token of the running load, on a cold gate or beside a loaded one
-- KEYS[5]  notes    list: changes of the gate during a load, oldest first; see add_notes()
-- KEYS[6]  stream   the shard's admissions; an entry has the rows of one voucher
-- KEYS[7]  queued   hash: user -> the user's rows in the stream, which are the user's tickets
-- KEYS[8]  dead     stream of the shard's dead letters
-- A script's own keys follow. This file reads no ARGV and returns nothing.
-- A row is the text of an admission, written and parsed by Go. It begins with the order, user and voucher ids, a space
-- after each, and ends with a space and the queue position, which begins at 1 for each voucher. A newline separates the
-- rows of one text. Order ids are strings throughout: a Lua number holds 53 bits.
local COMMON = 8
local STOCK, BUYERS, META, LOADING, NOTES, STREAM, QUEUED, DEAD = unpack(KEYS, 1, COMMON)
local GROUP = 'workers'
local FAILED_TTL = 86400 -- seconds
local NOTES_TTL = 60000 -- ms; longer than the lease of a load

local loaded = redis.call('EXISTS', STOCK) == 1
local loading = redis.call('EXISTS', LOADING) == 1

-- Returns the server's time in ms, as a string.
local function server_time_ms()
  local t = redis.call('TIME')
  return string.format('%s%03d', t[1], math.floor(tonumber(t[2]) / 1000))
end

-- Returns the id of the server's replication history, or false without permission to read it. A server that restarts, or
-- becomes the master, begins a new one. The embedded server has none: its history is "".
local function server_history()
  local info = redis.pcall('INFO', 'replication')
  if type(info) == 'string' then return string.match(info, 'master_replid:(%w+)') or '' end
  return string.find(info.err, 'is not supported', 1, true) and ''
end

-- Returns whether the gate has all admissions of its generation. It may lack some if another server has taken over since
-- its load, or if an earlier version loaded it.
local function has_all_admissions()
  local known, history = unpack(redis.call('HMGET', META, 'generation', 'history'))
  return known and history == server_history()
end

local generation -- once add_entry() has read it

-- Appends an entry with rows to the stream, and with further fields and values.
local function add_entry(rows, ...)
  generation = generation or redis.call('HGET', META, 'generation') or '0'
  redis.call('XADD', STREAM, '*', 'rows', rows, 'generation', generation, ...)
end

-- The next functions work on a buyer's comma-separated list of order ids.

local function count_orders(list)
  if list == '' then return 0 end
  local _, commas = string.gsub(list, ',', '')
  return commas + 1
end

local function has_order(list, order)
  if list == '' then return false end
  return string.find(',' .. list .. ',', ',' .. order .. ',', 1, true) ~= nil
end

local function append_order(list, order)
  if list == '' then return order end
  return list .. ',' .. order
end

local function newest_order(list)
  return string.match(list, '[^,]*$')
end

local function remove_order(list, order)
  local rest = {}
  for id in string.gmatch(list, '[^,]+') do
    if id ~= order then rest[#rest + 1] = id end
  end
  return table.concat(rest, ',')
end

-- Returns what an order id adds to the sum: the number of its last nine digits.
local function checksum_part(order)
  return tonumber(string.sub(order, -9))
end

-- Stores a buyer's list, and deletes the field if the list is empty.
local function store_orders(buyers, user, list)
  if list == '' then
    redis.call('HDEL', buyers, user)
  else
    redis.call('HSET', buyers, user, list)
  end
end

-- Appends notes for the running load. A note is one of
--   "+ user order"   the buyer holds the order and its unit from now on
--   "- user order"   the order was released
--   "in rows"        this number of rows was queued in new entries
--   "out rows entry" the entry left the stream, and this number of its rows left the queue
local function add_notes(...)
  redis.call('RPUSH', NOTES, ...)
  redis.call('PEXPIRE', NOTES, NOTES_TTL)
end

-- Returns the unit of an order to the stock and removes the order from its buyer's list, if it is in there. Returns
-- whether the gate changed.
local function release_order(user, order)
  if loading then add_notes('- ' .. user .. ' ' .. order) end
  if not loaded then return false end
  local list = redis.call('HGET', BUYERS, user)
  if not list or not has_order(list, order) then return false end
  store_orders(BUYERS, user, remove_order(list, order))
  redis.call('INCR', STOCK)
  redis.call('HINCRBY', META, 'held', -1)
  redis.call('HINCRBY', META, 'sum', 0 - checksum_part(order)) -- a unary minus would send "-0" for 0
  return true
end

-- Invalidates the running load, whose loader then starts over.
local function abort_load()
  redis.call('UNLINK', LOADING, NOTES)
  loading = false
end

-- Increases the version, by which audits detect that the gate changed.
local function increment_version()
  if loaded then redis.call('HINCRBY', META, 'version', 1) end
end

-- Appends the next queue positions to rows, and returns them.
local function assign_positions(rows)
  local last = redis.call('HINCRBY', META, 'line', #rows) - #rows
  for i, row in ipairs(rows) do rows[i] = string.format('%s %.0f', row, last + i) end
  return rows
end

-- Adds rows[i] to the tickets of users[i].
local function add_tickets(users, rows)
  local tickets, args = {}, {}
  for i, old in ipairs(redis.call('HMGET', QUEUED, unpack(users))) do tickets[users[i]] = old end
  for i, user in ipairs(users) do
    local old = tickets[user]
    tickets[user] = old and old .. '\n' .. rows[i] or rows[i]
    args[2 * i - 1], args[2 * i] = user, tickets[user] -- HSET keeps the last value of a repeated user
  end
  redis.call('HSET', QUEUED, unpack(args))
end

-- Returns rows without the first one that begins with prefix.
local function remove_row(rows, prefix)
  local lines = '\n' .. rows
  local from = string.find(lines, '\n' .. prefix, 1, true)
  if not from then return rows end
  local to = string.find(lines, '\n', from + 1, true) or #lines + 1
  return string.sub(string.sub(lines, 1, from - 1) .. string.sub(lines, to), 2)
end

-- Removes from the tickets of users[i] the row that begins with prefixes[i].
local function remove_tickets(users, prefixes)
  if #users == 0 then return end
  local tickets, kept, empty = {}, {}, {}
  for i, old in ipairs(redis.call('HMGET', QUEUED, unpack(users))) do tickets[users[i]] = old or '' end
  for i, user in ipairs(users) do tickets[user] = remove_row(tickets[user], prefixes[i]) end
  for user, rows in pairs(tickets) do
    if rows == '' then
      empty[#empty + 1] = user
    else
      kept[#kept + 1] = user
      kept[#kept + 1] = rows
    end
  end
  if #empty > 0 then redis.call('HDEL', QUEUED, unpack(empty)) end
  if #kept > 0 then redis.call('HSET', QUEUED, unpack(kept)) end
end
