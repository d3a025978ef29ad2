-- Runs each(), the script before this text, once per key.
-- KEYS     the key of each call
-- ARGV[1]  how many arguments each call has
-- ARGV     then the arguments of each call in turn
-- Returns a reply per call, in their order: the script's own, or a string that
-- says why it failed. One call that fails does not concern the others.
local n, replies = tonumber(ARGV[1]), {}
for i, key in ipairs(KEYS) do
  local ok, reply = pcall(each, {key}, {unpack(ARGV, 2 + (i - 1) * n, 1 + i * n)})
  if not ok then reply = tostring(type(reply) == 'table' and reply.err or reply) end
  replies[i] = reply or false
end
return replies
