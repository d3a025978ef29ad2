-- Reads what the servers have reported about a sale.
-- KEYS[1]  reports  stream: an entry per server and second, with counts and levels by name
-- KEYS[2]  totals   hash: the sums of the counts by name, and "since", in ms
-- ARGV[1]  the first entry to read
-- Returns {the time of Redis in seconds, the entries, the totals}. Entries of earlier seconds are complete.
return {redis.call('TIME')[1], redis.call('XRANGE', KEYS[1], ARGV[1], '+'), redis.call('HGETALL', KEYS[2])}
