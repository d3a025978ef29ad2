-- Reserves a unit for a buyer and queues the order, as most flash-sale systems do. It is the reference for lane queue.
--
-- KEYS[1]  free units (string)
-- KEYS[2]  buyers (set of user IDs)
-- KEYS[3]  queue (stream)
-- ARGV[1]  user ID
-- ARGV[2]  order ID
--
-- Returns  0  reserved and queued
--          1  sold out
--          2  the user has already bought
if redis.call("SISMEMBER", KEYS[2], ARGV[1]) == 1 then
	return 2
end
if tonumber(redis.call("GET", KEYS[1]) or "0") <= 0 then
	return 1
end
redis.call("DECR", KEYS[1])
redis.call("SADD", KEYS[2], ARGV[1])
redis.call("XADD", KEYS[3], "*", "user", ARGV[1], "order", ARGV[2])
return 0
