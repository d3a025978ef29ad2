-- Runs each(), the script that precedes this text, once per key.
-- KEYS[i]  the key of call i
-- ARGV[1]  n, the number of arguments per call
-- ARGV[2...]  the n arguments of each call in turn
-- Returns an array with one reply per call, in their order: the reply of the script, or a string with its error
-- message. An error in one call does not affect the others.
local n, replies = tonumber(ARGV[1]), {}
for i, key in ipairs(KEYS) do
  local ok, reply = pcall(each, {key}, {unpack(ARGV, 2 + (i - 1) * n, 1 + i * n)})
  if not ok then reply = tostring(type(reply) == 'table' and reply.err or reply) end
  replies[i] = reply or false
end
return replies
