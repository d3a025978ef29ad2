-- Gives permits back. ARGV[5] permits. Returns 1, or 0 if not that many are held.
local n = tonumber(ARGV[5])
local total, held = state()
if not total or held < n then return answer(0) end
hold(held - n)
admit(total - held + n)
return answer(1)
