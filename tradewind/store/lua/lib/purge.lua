local function is_due(set, id, now_ms)
  local at_ms = redis.call('ZSCORE', set, id)
  return (at_ms and tonumber(at_ms) <= now_ms) and 1 or 0
end

-- Dead letters past their retention, at most `most` at a time: found first, then removed.
-- nil: a record has left this node. `due` and `hooks`: how many of them a courier, or an on_dead,
-- still waits for.
local function find_past(prefix, dead_until, outbox, hooks, now_ms, most)
  local found = { due = 0, hooks = 0 }
  found.ids = redis.call('ZRANGEBYSCORE', dead_until, '-inf', int(now_ms), 'LIMIT', 0, most)
  for _, id in ipairs(found.ids) do
    local record = prefix .. 't:' .. id
    if not here({ record }) then
      return nil
    end
    local v = redis.call('HMGET', record, 's', 'q')
    if v[1] == 'DEAD_LETTER' then
      found[#found + 1] = { record = record, queue = v[2] or 'default' } -- see lib/read
    end
    found.due = found.due + is_due(outbox, id, now_ms)
    found.hooks = found.hooks + is_due(hooks, id, now_ms)
  end
  return found
end

local function purge(counts, dead, dead_until, outbox, hooks, found)
  for _, task in ipairs(found) do
    redis.call('DEL', task.record)
    count(counts, 'd:' .. task.queue, -1)
  end
  if #found.ids > 0 then
    redis.call('ZREM', dead, unpack(found.ids))
    redis.call('ZREM', outbox, unpack(found.ids))
    redis.call('ZREM', hooks, unpack(found.ids))
    redis.call('ZREM', dead_until, unpack(found.ids))
  end
end
