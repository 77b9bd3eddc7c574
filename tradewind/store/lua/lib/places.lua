-- Where the tickets of a queue lie, and which hint tells of them: by priority, '0' (high) to '2'
-- (low). Suspects, tasks with crashes, have lists and a hint of their own, 's0' to 's2': they wait
-- for a free child, and stand in nobody's way.
local function place_of(priority, crashes)
  return (crashes and (tonumber(crashes) or 0) > 0) and 's' .. priority or priority
end

local function is_suspect(place)
  return #place > 1
end

local function list_at(prefix, queue, place)
  return prefix .. 'q:' .. queue .. ':' .. place
end

local function hint_of(prefix, queue, place)
  return prefix .. (is_suspect(place) and 'suspects:' or 'wake:') .. queue
end
