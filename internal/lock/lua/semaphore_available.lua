-- Counts the free permits.
-- KEYS[1]  lock; KEYS[2] queue; KEYS[3] waiters; a leased semaphore's KEYS[4] holders
-- ARGV[1]  wake prefix; ARGV[2]...ARGV[4] not used
-- Returns the number, negative if more permits are held than exist.
local total, held = read_counters()
return (total or 0) - held
