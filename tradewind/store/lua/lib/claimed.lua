-- One ticket becomes one claim: state PROCESSING, lease, token.
local function take(prefix, counts, leases, t, list, worker_id, now, now_ms)
  local v = redis.call('HMGET', t.record, 'tk', 'ep', 'at', 'cr', 'ca', 'hc', 'sp', 'hp')
  local token = int(math.max(tonumber(v[1] or 0) + 1, now))
  local attempt = tonumber(v[3] or 0) + 1
  redis.call('HSET', t.record, 'st', 'PROCESSING', 'tk', token, 'at', attempt, 'wk', worker_id,
    'sa', int(now_ms))
  redis.call('ZADD', leases, int(now_ms + list.lease_ms), t.id)
  count_ready(counts, list.queue, list.priority, -1)
  count(counts, 'r:' .. list.queue, 1)
  changed(prefix, t.record, t.id)
  return { t.id, list.queue, t.name, list.priority, token, v[2], attempt, v[4] or '0', v[5] or '0',
    t.ready_ms, v[6] or '0', v[7] or '', v[8] or '' }
end

-- A copy of a fingerprint that was completed: it is not run again, it gets the first's result.
local function copy_done(prefix, counts, t, list, now_ms)
  local v = redis.call('HMGET', t.first, 'rs', 'rt')
  redis.call('HSET', t.record, 'st', 'COMPLETED', 'fa', int(now_ms), 'rs', v[1] or '',
    'rt', v[2] or '')
  local left = redis.call('PTTL', prefix .. 'done:' .. redis.call('HGET', t.record, 'dd'))
  redis.call('PEXPIRE', t.record, math.max(left, 60000))
  count_ready(counts, list.queue, list.priority, -1)
  changed(prefix, t.record, t.id)
end
