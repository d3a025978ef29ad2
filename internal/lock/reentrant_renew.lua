-- Makes the lease of ID's hold end LEASE ms from now. Returns 1, or 0 if it has none, or no more.
local owner, token, holds = read()
if not holds[ID] then return 0 end
keep(owner, token, holds)
return 1
