-- What is due (SCHEDULED, FAILED) becomes PENDING, or EXPIRED: high before normal before low, at
-- most `most` of each, the longest due first. Each priority has its own share, so that those that
-- come due all the time cannot hide the others. Two steps, so that every touch comes before the
-- first write. nil: a key has left this node.
local function find_due(prefix, due, now_ms, most)
  local found = { next_due_ms = -1 }
  for _, key in ipairs(redis.call('EXISTS', unpack(due)) > 0 and due or {}) do
    local entries = redis.call('ZRANGEBYSCORE', key, '-inf', int(now_ms), 'WITHSCORES',
      'LIMIT', 0, most)
    for i = 1, #entries, 2 do
      local record = prefix .. 't:' .. entries[i]
      if not here({ record }) then
        return nil
      end
      local v = read(record, 's', 'q', 'pr', 'ex', 'xk', 'cr')
      local place = v[1] and place_of(v[3], v[6])
      if place and not here({ list_at(prefix, v[2], place), hint_of(prefix, v[2], place) }) then
        return nil
      end
      found[#found + 1] = { id = entries[i], key = key, due_ms = tonumber(entries[i + 1]),
        record = record, state = v[1], queue = v[2], place = place,
        over = is_over(v[4], now_ms), keep_ms = v[5] }
    end
    -- Read now: promoting may empty the key.
    local following = redis.call('ZRANGE', key, #entries / 2, #entries / 2, 'WITHSCORES')
    local in_ms = following[1] and math.max(0, tonumber(following[2]) - now_ms)
    if in_ms and (found.next_due_ms < 0 or in_ms < found.next_due_ms) then
      found.next_due_ms = in_ms
    end
  end
  return found
end

-- Each promoted task gets its new `revision` in `found`; ids of expired ones are added to `gone`,
-- what drop_expiry takes.
local function promote(prefix, counts, found, now_ms, gone)
  for _, task in ipairs(found) do
    redis.call('ZREM', task.key, task.id)
    if task.state == 'FAILED' or task.state == 'SCHEDULED' then
      count(counts, (task.state == 'FAILED' and 'f:' or 's:') .. task.queue, -1)
      if task.over then
        ended(prefix, task.record, task.id, 'EXPIRED', now_ms, task.keep_ms)
        gone[#gone + 1] = task.id
      else
        redis.call('HDEL', task.record, 'nx')
        task.revision = make_ready(prefix, counts, task.record, task.id, task.queue,
          task.place, now_ms, false, task.due_ms)
        wake(hint_of(prefix, task.queue, task.place))
      end
    end
  end
end
