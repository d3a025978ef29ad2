-- Makes a read hold of ID's write hold, with a lease of LEASE ms from now. Returns 1, also when that was done
-- before and the answer was lost, or 0 if ID has neither, or no more.
if not has(LOCK) and not has(READERS) then return 0 end
write()
read(LEASE)
token()
admit()
return 1
