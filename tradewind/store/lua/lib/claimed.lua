-- One ticket becomes one claim: state PROCESSING, lease, token.
-- c: prefix, counts, leases, worker_id, now, now_ms.
local function take(c, t, ticket, list)
  local v = redis.call('HMGET', t.record, 'tk', 'ep', 'at', 'cr', 'ca', 'hc', 'sp', 'hp')
  local token = int(math.max(tonumber(v[1] or 0) + 1, c.now))
  local attempt = tonumber(v[3] or 0) + 1
  redis.call('HSET', t.record, 'st', 'PROCESSING', 'tk', token, 'at', attempt, 'wk', c.worker_id,
    'sa', int(c.now_ms))
  redis.call('ZADD', c.leases, int(c.now_ms + list.lease_ms), t.id)
  count(c.counts, 'r:' .. list.queue, 1)
  count_ready(c.counts, list.queue, list.priority, -1)
  changed(c.prefix, t.record, t.id)
  t.state = 'PROCESSING'
  return { t.id, list.queue, t.name, list.priority, token, v[2], attempt, v[4] or '0', v[5] or '0',
    ticket.ready_ms, v[6] or '0', v[7] or '', v[8] or '' }
end

-- A copy of a fingerprint that was completed: it is not run again, it gets the first's result.
local function copy_done(c, t, list)
  local v = redis.call('HMGET', t.first, 'rs', 'rt')
  redis.call('HSET', t.record, 'st', 'COMPLETED', 'fa', int(c.now_ms), 'rs', v[1] or '',
    'rt', v[2] or '')
  redis.call('HDEL', t.record, 'mc', 'et')
  redis.call('PEXPIRE', t.record, math.max(redis.call('PTTL', t.mark), 60000))
  count_ready(c.counts, list.queue, list.priority, -1)
  changed(c.prefix, t.record, t.id)
  t.state = 'COMPLETED'
end

-- Redeems the tickets of one list that were looked at, until `want` claims are made.
-- Appends claims to the reply, notes in list.left what remains; returns what is still wanted.
local function redeem(c, list, want, reply)
  -- Read before tickets go: the list may be emptied.
  list.left = redis.call('LLEN', list.key)
  local upto = want > 0 and list.looked + list.added or 0
  local used = 0
  for _, text in ipairs(upto > 0 and redis.call('LRANGE', list.key, 0, upto - 1) or {}) do
    local ticket = parse(text)
    local t = c.seen[ticket.id]
    if want == 0 or not t then
      break
    end
    used = used + 1
    if is_good(t, ticket) then
      if t.first then
        copy_done(c, t, list)
      elseif t.runnable then
        reply[#reply + 1] = take(c, t, ticket, list)
        want = want - 1
      else
        park(c, list.queue, t, ticket)
      end
    end
  end
  if used > 0 then
    redis.call('LPOP', list.key, used)
    list.left = list.left - used
  end
  return want
end
