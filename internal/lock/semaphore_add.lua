-- Changes how many permits there are; one that was never set has none before. ARGV[5] by how many, may be negative.
-- Returns 1, or 0 if it would be more than MOST of them, or of those that are missing.
local total, held = state()
local sum = (total or 0) + tonumber(ARGV[5])
if math.abs(sum) > MOST then return answer(0) end
if total then
  redis.call('HSET', LOCK, 'total', int(sum))
else
  create(sum)
end
admit(sum - held)
return answer(1)
