-- Parked tickets whose tasks ended while nobody could run them: no claim comes for them, so sweeps
-- drop them, a few names and tickets at a time. nil: a key has left this node.
local function find_stale(prefix, parked)
  local found, NAMES, TICKETS = {}, 4, 16
  if redis.call('EXISTS', parked) == 0 then
    return found
  end
  for _, field in ipairs(redis.call('HRANDFIELD', parked, NAMES)) do
    local queue = string.match(field, '^(%S+) ')
    local from = { key = prefix .. 'parked:' .. field, field = field, queue = queue, number = 0 }
    if queue and not here({ from.key }) then
      return nil
    end
    for _, ticket in ipairs(queue and redis.call('LRANGE', from.key, 0, TICKETS - 1) or {}) do
      local id, revision = string.match(ticket, '^(.-):(%d+):')
      local record = prefix .. 't:' .. id
      if not here({ record }) then
        return nil
      end
      local v = read(record, 's', 'rv')
      if v[1] == 'PENDING' and v[2] == revision then
        break
      end
      from.number = from.number + 1
    end
    found[#found + 1] = from.number > 0 and from or nil
  end
  return found
end

local function drop_stale(parked, found)
  for _, from in ipairs(found) do
    redis.call('LPOP', from.key, from.number)
    for _, field in ipairs({ from.field, from.queue }) do -- the sum last: it may empty the key
      if redis.call('HINCRBY', parked, field, -from.number) <= 0 then
        redis.call('HDEL', parked, field)
      end
    end
  end
end
