-- Takes a mutex: LOCK is a string, the id of its hold. Keys, arguments and answer are those of common.lua. What a waiter
-- wants is its lease.
if not redis.call('SET', LOCK, ID, 'NX', 'PX', LEASE) then
  if redis.call('GET', LOCK) ~= ID then return deny(redis.call('PTTL', LOCK), ARGV[3]) end
  -- The answer to the first time was lost. The lease may have been extended since: this may be an old question.
  if redis.call('PTTL', LOCK) < LEASE then redis.call('PEXPIRE', LOCK, LEASE) end
  forget(ID)
  return {1, tonumber(redis.call('GET', FENCE)) or fence()}
end
if MODE == 'wait' then forget(ID) end
tell_end(LEASE)
return {1, fence()}
