-- Whatever its holder reports, but success: a running task whose cancel was asked for ends
-- CANCELLED. Returns the item's reply, nil if none was asked for. In a record `cq` says that it
-- was, and for how long the record is then kept.
local function cancelled_instead(counts, leases, prefix, record, task_id, now_ms)
  local v = redis.call('HMGET', record, 'cq', 'q')
  if not v[1] then
    return nil
  end
  redis.call('ZREM', leases, task_id)
  count(counts, 'r:' .. (v[2] or 'default'), -1) -- see lib/read
  ended(prefix, record, task_id, 'CANCELLED', now_ms, v[1])
  return { 'ok', task_id, 'CANCELLED' }
end
