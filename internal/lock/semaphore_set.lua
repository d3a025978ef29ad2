-- Sets how many permits there are, once. ARGV[5] permits. Returns 1, or 0 if it was set before.
if redis.call('EXISTS', LOCK) == 1 then return answer(0) end
create(tonumber(ARGV[5]))
admit(tonumber(ARGV[5]))
return answer(1)
