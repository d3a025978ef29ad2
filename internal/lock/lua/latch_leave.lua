-- Removes ID from the queue of a latch.
-- KEYS[1]  lock, not used; KEYS[2] queue; KEYS[3] waiters
-- ARGV[1]  not used; ARGV[2] id of the waiter; ARGV[3], ARGV[4] not used
-- Returns 0, because a waiter of a latch holds nothing.
dequeue(ID)
return 0
