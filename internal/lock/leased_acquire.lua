-- Takes permits with a lease. Keys, arguments and answer are those of common.lua and leased.lua, and
-- ARGV[5]  permits
local n, holder = tonumber(ARGV[5]), ARGV[5] .. ':' .. ID
local total, held = state()
local free = (total or 0) - held
if not (total and redis.call('ZSCORE', HOLDERS, holder)) then -- else the answer to the first time was lost
  if not turn(free, n) then return refuse(n, moment(n - free)) end
  hold(held + n)
  free = free - n
end
local ends, known = now() / 1000 + LEASE, redis.call('ZSCORE', HOLDERS, holder)
if not known or tonumber(known) < ends then -- asked twice, it may have been extended meanwhile
  redis.call('ZADD', HOLDERS, int(math.ceil(ends)), holder)
end
admitted(free)
return {1, 0}
