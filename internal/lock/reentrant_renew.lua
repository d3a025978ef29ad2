-- Makes the lease of ID's hold end LEASE ms from now. Returns 1, or 0 if it has none, or no more.
if not held() then return 0 end
hold(LEASE)
return 1
