-- Returns how many permits are free.
local total, held = state()
return (total or 0) - held
