-- Returns one call to every bucket of take.lua.
-- KEYS      the buckets
-- ARGV[i]   milliseconds in which bucket i refills one call
-- Returns {}.
for i, key in ipairs(KEYS) do
  local taken = redis.call('PTTL', key) - tonumber(ARGV[i])
  if taken > 0 then redis.call('PEXPIRE', key, taken) else redis.call('DEL', key) end
end
return {}
