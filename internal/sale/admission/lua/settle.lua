-- Settles the rows of entries of one voucher, and removes the entries from the stream.
-- KEYS     those of common.lua; then, for each row that is rejected or dead, the failed tickets of its user
-- ARGV[1]  voucher
-- ARGV     then for each entry: entry id, tries, number of rows; after that for each row: order, user, outcome, where
--          the outcome is "committed" without further arguments, or one of these, followed by a reason and the row:
--            "rejected"  the reason is an error code of the API
--            "dead"      the row becomes a dead letter with the tries; the reason is for the operator
--            "retry"     the row becomes an entry of its own with the tries; the reason is ignored
-- Returns the number of entries that this call removed.
-- Only the call that removes an entry settles its rows: since then they may have been dead-lettered and replayed, and
-- the replay holds those units. Therefore the script is idempotent.
local voucher, arg, ticket = ARGV[1], 1, COMMON
local entries, users, prefixes = {}, {}, {}
local removed_entries, removed_rows = 0, 0

-- Returns the next n arguments.
local function next_args(n)
  arg = arg + n
  return unpack(ARGV, arg - n + 1, arg)
end

-- Releases the unit of a row that does not become an order, and stores its failed ticket.
local function fail_order(tickets, order, user, reason, row)
  release_order(user, order)
  redis.call('HSET', tickets, order, reason .. ' ' .. server_time_ms() .. ' ' .. row)
  redis.call('EXPIRE', tickets, FAILED_TTL)
end

while arg < #ARGV do
  local entry, tries, rows = next_args(3)
  entries[#entries + 1] = entry
  local removed = redis.call('XDEL', STREAM, entry) == 1
  local out = 0
  for _ = 1, tonumber(rows) do
    local order, user, outcome = next_args(3)
    local reason, row, tickets
    if outcome ~= 'committed' then reason, row = next_args(2) end
    if outcome == 'rejected' or outcome == 'dead' then
      ticket = ticket + 1
      tickets = KEYS[ticket]
    end
    if removed and outcome == 'retry' then
      add_entry(row, 'tries', tries)
    elseif removed then
      out = out + 1
      users[#users + 1] = user
      prefixes[#prefixes + 1] = order .. ' ' .. user .. ' ' .. voucher .. ' '
      if outcome == 'dead' then
        redis.call('XADD', DEAD, '*', 'dead_entry', entry, 'dead_reason', reason, 'dead_tries', tries, 'row', row)
        reason = 'internal'
      end
      if tickets then fail_order(tickets, order, user, reason, row) end
    end
  end
  if removed then
    removed_entries = removed_entries + 1
    removed_rows = removed_rows + out
    if loading then add_notes('out ' .. out .. ' ' .. entry) end
  end
end

redis.call('XACK', STREAM, GROUP, unpack(entries))
remove_tickets(users, prefixes)
if loaded and removed_rows > 0 then redis.call('HINCRBY', META, 'queued', -removed_rows) end -- 0 would be sent as "-0"
if removed_entries > 0 then increment_version() end
return removed_entries
