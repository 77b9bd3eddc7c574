-- Hints to workers with other handlers that something is parked, apart from the hint of ready work,
-- which would otherwise be left alone by those who cannot run it. Once a queue; returns how many.
local function call_others(c, list)
  local stuck = list.place == '0' and math.max(0, c.parked[list.queue] or 0) or 0
  if stuck > 0 then
    wake(list.others)
  end
  return stuck
end

-- The hints of a list and of its suspects go on while there is something left.
local function pass_on(list, odd)
  for _, one in ipairs({ list, odd }) do
    if one.left > 0 then
      wake(one.hint)
    end
  end
end
