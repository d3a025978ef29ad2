-- Sets a unit aside for a buyer and queues the order, as most flash-sale code does it: the yardstick of the queue lane.
--
-- KEYS[1]  units left (string)
-- KEYS[2]  buyers (set of user ids)
-- KEYS[3]  queue (stream)
-- ARGV[1]  user id
-- ARGV[2]  order id
--
-- Returns  0  set aside and queued
--          1  no unit is left
--          2  the user has bought already
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
