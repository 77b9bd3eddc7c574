-- When tasks in states SCHEDULED and FAILED are due, in a ZSET for each priority: what came due at
-- once is made ready high first, and no backlog of one priority hides another.
-- `due`: { high, normal, low }; `place`: lib/places.lua.
local function due_of(due, place)
  return due[tonumber(string.sub(place, -1)) + 1]
end

-- True if nothing else of the partition is due before it.
local function be_due(due, place, task_id, due_ms)
  redis.call('ZADD', due_of(due, place), int(due_ms), task_id)
  for _, key in ipairs(due) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if first[1] and first[1] ~= task_id and tonumber(first[2]) <= due_ms then
      return false
    end
  end
  return true
end
