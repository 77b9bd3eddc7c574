-- What is due (SCHEDULED, FAILED) becomes PENDING, or EXPIRED, at most `most` at a time.
-- Two steps, so that every touch comes before the first write. nil: a key has left this node.
local function find_due(prefix, due, now_ms, most)
  local ids = redis.call('ZRANGEBYSCORE', due, '-inf', int(now_ms), 'LIMIT', 0, most)
  local found = {}
  for i, id in ipairs(ids) do
    local record = prefix .. 't:' .. id
    if not here({ record }) then
      return nil
    end
    local v = redis.call('HMGET', record, 'st', 'q', 'pr', 'ex', 'xk')
    if v[2] and not here({ prefix .. 'q:' .. v[2] .. ':' .. v[3], prefix .. 'wake:' .. v[2] }) then
      return nil
    end
    found[i] = { id = id, record = record, state = v[1], queue = v[2], priority = v[3],
      over = is_over(v[4], now_ms), keep_ms = v[5] }
  end
  -- Read now: promoting may empty the key.
  local following = redis.call('ZRANGE', due, #ids, #ids, 'WITHSCORES')
  found.next_due_ms = following[1] and math.max(0, tonumber(following[2]) - now_ms) or -1
  return found
end

-- Each promoted task gets its new `revision` in `found`; ids of expired ones are added to `gone`,
-- what drop_expiry takes.
local function promote(prefix, counts, due, found, now_ms, gone)
  for _, task in ipairs(found) do
    redis.call('ZREM', due, task.id)
    if task.state == 'FAILED' or task.state == 'SCHEDULED' then
      count(counts, (task.state == 'FAILED' and 'f:' or 's:') .. task.queue, -1)
      if task.over then
        ended(prefix, task.record, task.id, 'EXPIRED', now_ms, task.keep_ms)
        gone[#gone + 1] = task.id
      else
        redis.call('HDEL', task.record, 'nx')
        task.revision = make_ready(prefix, counts, task.record, task.id, task.queue,
          task.priority, now_ms, false)
        wake(prefix .. 'wake:' .. task.queue)
      end
    end
  end
end
