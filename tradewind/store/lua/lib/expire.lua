-- Waiting tasks past their expiry, at most `most` at a time: found and touched first, then ended.
-- nil: a key has left this node.
local function find_over(prefix, expiry, now_ms, most)
  local found = {}
  local ids = redis.call('ZRANGEBYSCORE', expiry, '-inf', int(now_ms), 'LIMIT', 0, most)
  for i, id in ipairs(ids) do
    local record = prefix .. 't:' .. id
    if not here({ record }) then
      return nil
    end
    local v = read(record, 's', 'q', 'pr', 'cr')
    if v[1] and not here({ list_at(prefix, v[2], v[3]),
      list_at(prefix, v[2], place_of(v[3], v[4])) }) then
      return nil
    end
    found[i] = { id = id, record = record }
  end
  return found
end

-- Their ids are added to `gone`, what drop_expiry takes. Returns how many tasks have ended.
local function expire(prefix, counts, due, found, now_ms, gone)
  local number = 0
  for _, task in ipairs(found) do
    -- Read again: this very call may have ended it already.
    local v = read(task.record, 's', 'q', 'pr', 'xk', 'cr')
    if v[4] and stop_waiting(prefix, counts, due, task.id, v[1], v[2], place_of(v[3], v[5])) then
      ended(prefix, task.record, task.id, 'EXPIRED', now_ms, v[4])
      number = number + 1
    end
    gone[#gone + 1] = task.id
  end
  return number
end
