-- Takes a mutex: LOCK is a string, the id of its hold. Keys, arguments and answer are those of common.lua. What a waiter
-- wants is its lease.
if not redis.call('SET', LOCK, ID, 'NX', 'PX', LEASE) then
  if redis.call('GET', LOCK) ~= ID then return deny(redis.call('PTTL', LOCK), ARGV[3]) end
  redis.call('PEXPIRE', LOCK, LEASE) -- the answer to the first time was lost
  forget(ID)
  return {1, tonumber(redis.call('GET', FENCE)) or fence()}
end
if MODE == 'wait' then forget(ID) end
return {1, fence()}
