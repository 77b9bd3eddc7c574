-- What is due (SCHEDULED, FAILED) becomes PENDING, at most `most` at a time.
-- Two steps, so that every touch comes before the first write.
local function find_due(prefix, due, now_ms, most, touched)
  local found = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', int(now_ms), 'LIMIT', 0, most)) do
    local record = prefix .. 't:' .. id
    if not here({ record }) then
      return nil
    end
    local v = redis.call('HMGET', record, 'st', 'q', 'pr')
    found[#found + 1] = { id = id, record = record, state = v[1], queue = v[2], priority = v[3] }
    if v[2] then
      touched[#touched + 1] = prefix .. 'q:' .. v[2] .. ':' .. v[3]
      touched[#touched + 1] = prefix .. 'wake:' .. v[2]
    end
  end
  return found
end

local function promote(prefix, counts, due, found, now_ms)
  for _, task in ipairs(found) do
    redis.call('ZREM', due, task.id)
    if task.state == 'FAILED' or task.state == 'SCHEDULED' then
      count(counts, (task.state == 'FAILED' and 'f:' or 's:') .. task.queue, -1)
      redis.call('HDEL', task.record, 'nx')
      make_ready(prefix, counts, task.record, task.id, task.queue, task.priority, now_ms, false)
      wake(prefix .. 'wake:' .. task.queue)
    end
  end
end

local function next_due_ms(due, now_ms)
  local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
  if not first[1] then
    return -1
  end
  return math.max(0, tonumber(first[2]) - now_ms)
end
