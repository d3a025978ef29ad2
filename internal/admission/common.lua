-- What the scripts share. Go puts this file before each of them.
-- KEYS[1]  stock    string; it exists while the gate is loaded
-- KEYS[2]  buyers   hash: user -> order ids, comma-separated, the oldest first
-- KEYS[3]  meta     hash: held, queued, version
-- KEYS[4]  loading  string: the token of the loader at work
-- KEYS[5]  undone   set, while a loader is at work: "user:order" that was released, "ms-seq" of entries that left
-- KEYS[6]  stream   of the shard's admissions
-- KEYS[7]  dead     stream of the shard's dead letters
-- Order ids are strings throughout: a Lua number holds only 53 bits.
local STOCK, BUYERS, META, LOADING, UNDONE, STREAM, DEAD = unpack(KEYS, 1, 7)
local GROUP = 'workers'
local TICKET_TTL = 86400 -- seconds
local UNDONE_TTL = 60000 -- ms; more than a loader's lease

local loaded = redis.call('EXISTS', STOCK) == 1
local loading = not loaded and redis.call('EXISTS', LOADING) == 1

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
  return string.find(',' .. list .. ',', ',' .. order .. ',', 1, true) ~= nil
end

local function append(list, order)
  if list == '' then return order end
  return list .. ',' .. order
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

-- Notes for the loader at work what happened to the state that it is reading.
local function note(what)
  redis.call('SADD', UNDONE, what)
  redis.call('PEXPIRE', UNDONE, UNDONE_TTL)
end

-- Gives back the unit of an order and forgets its buyer, if the buyer holds that order. Says whether the gate
-- changed.
local function release(user, order)
  if loading then note(user .. ':' .. order) end
  if not loaded then return false end
  local list = redis.call('HGET', BUYERS, user)
  if not list or not has(list, order) then return false end
  put(BUYERS, user, without(list, order))
  redis.call('INCR', STOCK)
  redis.call('HINCRBY', META, 'held', -1)
  return true
end

-- Counts an entry out that was removed from the stream.
local function leave(entry)
  if loaded then redis.call('HINCRBY', META, 'queued', -1) end
  if loading then note(entry) end
end

-- Says to audits that the gate is another one than before.
local function changed()
  if loaded then redis.call('HINCRBY', META, 'version', 1) end
end

-- Appends an admission to the stream and writes its ticket.
local function enqueue(tickets, order, user, voucher, amount, limit, at, reply)
  redis.call('XADD', STREAM, '*', 'order', order, 'user', user, 'voucher', voucher,
    'amount', amount, 'limit', limit, 'at', at, 'reply', reply)
  redis.call('HSET', tickets, order,
    'queued voucher=' .. voucher .. ' amount=' .. amount .. ' limit=' .. limit .. ' at=' .. at)
  redis.call('EXPIRE', tickets, TICKET_TTL)
end

-- Writes the ticket of an admission that failed.
local function fail(tickets, reason, order, voucher, amount, limit, at)
  redis.call('HSET', tickets, order, 'failed reason=' .. reason .. ' failed_at=' .. now() ..
    ' voucher=' .. voucher .. ' amount=' .. amount .. ' limit=' .. limit .. ' at=' .. at)
  redis.call('EXPIRE', tickets, TICKET_TTL)
end
