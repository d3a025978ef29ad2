-- Makes the lease of ID's permits end LEASE ms from now. ARGV[5] permits. Returns 1, or 0 if it has none, or no more.
local holder = ARGV[5] .. ':' .. ID
local total, held = state()
local ends = total and redis.call('ZSCORE', HOLDERS, holder)
if not ends then return 0 end
local moved = math.ceil(now() / 1000 + LEASE)
redis.call('ZADD', HOLDERS, int(moved), holder)
if moved < tonumber(ends) then admit(total - held) end -- the first of the queue may get in sooner than it was told
return 1
