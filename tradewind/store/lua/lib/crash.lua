-- A run that ended without a report: its worker was lost, or the child that it ran in. No attempt
-- is used. The crash is counted apart, unless the claim booked it (`bk`), and too many of them are
-- a death of their own. One whose cancel was asked for ends CANCELLED.
local function run_of(record, task_id)
  local v = read(record, 's', 'q', 'pr', 'cr', 'mc', 'wk', 'bk', 'at')
  return { id = task_id, record = record, state = v[1], queue = v[2], priority = v[3],
    crashes = (tonumber(v[4] or 0) or 0) + (v[7] and 0 or 1), worker = v[6] or '',
    max_crashes = tonumber(v[5] or 3) or 3, attempts = (tonumber(v[8] or 1) or 1) - 1 }
end

-- Returns the state that `t`, a run, leads to. The caller has touched its list of suspects and
-- their hint. k: counts, leases, expiry and what bury takes. death: retention_ms, move_after_ms or
-- nil, failover.
local function crash(k, prefix, t, message, now_ms, death)
  if cancelled_instead(k.counts, k.leases, prefix, t.record, t.id, now_ms) then
    return 'CANCELLED'
  end
  redis.call('ZREM', k.leases, t.id)
  count(k.counts, 'r:' .. t.queue, -1)
  redis.call('HSET', t.record, 'at', t.attempts, 'cr', t.crashes, 'ek', 'worker-lost',
    'em', message, 'et', '')
  redis.call('HDEL', t.record, 'wk', 'pf', 'pn', 'bk')
  if t.crashes >= t.max_crashes then
    local move_at_ms = death.move_after_ms and now_ms + death.move_after_ms
    bury(k, prefix, t.record, t.id, t.queue, 'crashed', now_ms, now_ms + death.retention_ms,
      move_at_ms, death.failover)
    return 'DEAD_LETTER'
  end
  local place = place_of(t.priority, t.crashes)
  make_ready(prefix, k.counts, t.record, t.id, t.queue, place, now_ms, true)
  may_expire(k.expiry, t.record, t.id)
  wake(hint_of(prefix, t.queue, place))
  return 'PENDING'
end
