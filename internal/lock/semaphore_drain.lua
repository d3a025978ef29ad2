-- Takes all permits that are free. Returns how many.
local total, held = state()
local free = (total or 0) - held
if free <= 0 then return answer(0) end
hold(total)
return answer(free)
