-- Ends the rows of entries of one voucher, and with them the entries.
-- KEYS     common.lua; then for each row that failed or is dead its user's failed tickets
-- ARGV[1]  voucher
-- ARGV     then for each entry: entry, tries, how many rows it has; after that for each row: order, user, end, where
--          end is "ok" (it is an order now), or one of these, and then why and the row itself follow:
--            "failed"  why: a code of the API
--            "dead"    it becomes a dead letter, with the tries; why: for the operator
--            "again"   it becomes an entry of its own, with the tries
-- Returns how many entries this call removed.
-- Only who removes an entry ends its rows: they may have been buried and replayed meanwhile, and the replay holds
-- those units. So repeating it does no harm.
local voucher, word, ticket = ARGV[1], 1, COMMON
local entries, users, beginnings = {}, {}, {}
local gone, left = 0, 0

local function words(n)
  word = word + n
  return unpack(ARGV, word - n + 1, word)
end

-- A row that will not become an order.
local function fail(tickets, order, user, reason, row)
  release(user, order)
  redis.call('HSET', tickets, order, reason .. ' ' .. now() .. ' ' .. row)
  redis.call('EXPIRE', tickets, FAILED_TTL)
end

while word < #ARGV do
  local entry, tries, rows = words(3)
  entries[#entries + 1] = entry
  local removed = redis.call('XDEL', STREAM, entry) == 1
  local out = 0
  for _ = 1, tonumber(rows) do
    local order, user, how = words(3)
    local why, row, tickets
    if how ~= 'ok' then why, row = words(2) end
    if how == 'failed' or how == 'dead' then
      ticket = ticket + 1
      tickets = KEYS[ticket]
    end
    if removed and how == 'again' then
      redis.call('XADD', STREAM, '*', 'rows', row, 'tries', tries)
    elseif removed then
      out = out + 1
      users[#users + 1] = user
      beginnings[#beginnings + 1] = order .. ' ' .. user .. ' ' .. voucher .. ' '
      if how == 'dead' then
        redis.call('XADD', DEAD, '*', 'dead_entry', entry, 'dead_reason', why, 'dead_tries', tries, 'row', row)
        why = 'internal'
      end
      if tickets then fail(tickets, order, user, why, row) end
    end
  end
  if removed then
    gone = gone + 1
    left = left + out
    if loading then note('out ' .. out .. ' ' .. entry) end
  end
end

redis.call('XACK', STREAM, GROUP, unpack(entries))
dequeue(users, beginnings)
if loaded and left > 0 then redis.call('HINCRBY', META, 'queued', -left) end -- of nothing, it would be "-0"
if gone > 0 then changed() end
return gone
