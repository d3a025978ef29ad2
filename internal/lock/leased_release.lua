-- Ends whatever ID has: the permits, the place in the queue. ARGV[5] permits. Returns 1 if it had permits, else 0.
local n, holder = tonumber(ARGV[5]), ARGV[5] .. ':' .. ID
local total, held = state()
local had = redis.call('ZREM', HOLDERS, holder) == 1
forget(ID)
if not total then return 0 end
if had then
  held = held - n
  hold(held)
end
admit(total - held)
return had and 1 or 0
