-- Dead letters past their retention, at most `most` at a time: found first, then removed.
-- nil: a record has left this node. `found.due`: those in the outbox that a courier could take.
local function find_past(prefix, dead_until, outbox, now_ms, most)
  local found = { due = 0 }
  found.ids = redis.call('ZRANGEBYSCORE', dead_until, '-inf', int(now_ms), 'LIMIT', 0, most)
  for _, id in ipairs(found.ids) do
    local record = prefix .. 't:' .. id
    if not here({ record }) then
      return nil
    end
    local v = redis.call('HMGET', record, 'st', 'q')
    if v[1] == 'DEAD_LETTER' then
      found[#found + 1] = { record = record, queue = v[2] }
    end
    local at_ms = redis.call('ZSCORE', outbox, id)
    found.due = found.due + ((at_ms and tonumber(at_ms) <= now_ms) and 1 or 0)
  end
  return found
end

local function purge(counts, dead, dead_until, outbox, found)
  for _, task in ipairs(found) do
    redis.call('DEL', task.record)
    count(counts, 'd:' .. task.queue, -1)
  end
  if #found.ids > 0 then
    redis.call('ZREM', dead, unpack(found.ids))
    redis.call('ZREM', outbox, unpack(found.ids))
    redis.call('ZREM', dead_until, unpack(found.ids))
  end
end
