-- Makes a read hold of ID's write hold, with a lease of LEASE ms from now. Returns 1, also when that was done
-- before and the answer was lost, or 0 if ID has neither, or no more.
local wrote = has(LOCK)
if not wrote and not has(READERS) then return 0 end
read(LEASE)
token()
if wrote then
  write()
  admit()
end
return 1
