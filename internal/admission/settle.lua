-- Ends admissions of one voucher: removes their entries, and undoes those that failed.
-- KEYS     common.lua; then for each row the user's tickets
-- ARGV[1]  voucher
-- ARGV     then for each row: entry, order, user, amount, limit, at in ms, failed (empty: it is an order now)
-- Returns how many entries this call removed.
-- Only who removes an entry gives its unit back: it may have been buried and replayed meanwhile, and the replay
-- holds that unit. So repeating it does no harm.
local HEAD, ROW = 1, 7
local entries = {}
for i = 1, #KEYS - 7 do entries[i] = ARGV[HEAD + (i - 1) * ROW + 1] end
redis.call('XACK', STREAM, GROUP, unpack(entries))

local gone = 0
for i, entry in ipairs(entries) do
  local _, order, user, amount, limit, at, failed = unpack(ARGV, HEAD + (i - 1) * ROW + 1, HEAD + i * ROW)
  local removed = redis.call('XDEL', STREAM, entry) == 1
  if failed == '' then redis.call('HDEL', KEYS[7 + i], order) end
  if removed then
    gone = gone + 1
    leave(entry)
    if failed ~= '' then
      release(user, order)
      fail(KEYS[7 + i], failed, order, ARGV[1], amount, limit, at)
    end
  end
end
if gone > 0 then changed() end
return gone
