-- Hints to workers with other handlers that something is parked, apart from the hint of ready work,
-- which would otherwise be left alone by those who cannot run it. Once a queue; returns how many.
local function call_others(c, list)
  local stuck = list.priority == '0' and math.max(0, c.parked[list.queue] or 0) or 0
  if stuck > 0 then
    wake(list.others)
  end
  return stuck
end
