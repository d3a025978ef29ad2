-- Makes the lease of ID's hold, be it for writing or for reading, end LEASE ms from now. Returns 1, or 0 if it has
-- none, or no more.
if has(LOCK) then
  write(LEASE)
elseif has(READERS) then
  read(LEASE)
else
  return 0
end
token()
tell()
return 1
