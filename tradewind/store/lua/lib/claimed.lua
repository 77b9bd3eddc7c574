-- One ticket becomes one claim: state PROCESSING, lease, token.
-- c: prefix, worker_id, now, now_text, now_ms_text, gone (what drop_expiry takes), sums (what book
-- takes), leased (what ZADD takes).
local function take(c, t, ticket, list)
  local v = t.read -- see look in lib/tickets
  local token = tonumber(v[9] or 0) >= c.now and int(v[9] + 1) or c.now_text
  local attempt, crashes = (v[11] or 0) + 1, tonumber(v[7] or 0)
  if is_suspect(list.place) then -- the crash is booked now, or a death that takes all would not be
    crashes = crashes + 1
    redis.call('HSET', t.record, 'cr', crashes, 'bk', '1')
  end
  change(c.prefix, t.record, t.id, t.revision, v[8], 's', 'PROCESSING', 'tk', token,
    'at', attempt, 'wk', c.worker_id, 'sa', c.now_ms_text)
  if t.expires then c.gone[#c.gone + 1] = t.id end
  c.leased[#c.leased + 1] = list.lease_until
  c.leased[#c.leased + 1] = t.id
  add(c.sums, list.running, 1)
  list.taken = list.taken + 1
  t.state = 'PROCESSING'
  -- Only what was moved, and so has a higher epoch than its first, has a route.
  local route = v[10] and redis.call('HMGET', t.record, 'hc', 'hp') or {}
  -- One text costs less than ten, for Redis and for whoever reads the reply.
  local facts = t.id .. ' ' .. list.queue .. ' ' .. t.name .. ' ' .. list.place .. ' ' .. token
    .. ' ' .. (v[10] or '1') .. ' ' .. attempt .. ' ' .. crashes .. ' ' .. (v[12] or '0')
    .. ' ' .. ticket.ready_ms .. ' ' .. (route[1] or '0')
  return { facts, v[13] or '', route[2] or '' }
end

-- One that is not run: it expired, or is a copy of a fingerprint that was completed and gets the
-- first's result.
local function end_waiting(c, t, list)
  t.state = t.over and 'EXPIRED' or 'COMPLETED'
  local keep_ms = t.over and redis.call('HGET', t.record, 'xk')
  if not t.over then
    local v = redis.call('HMGET', t.first, 'rs', 'rt')
    redis.call('HSET', t.record, 'rs', v[1] or '')
    if v[2] or not v[1] then redis.call('HSET', t.record, 'rt', v[2] or '') end
    keep_ms = math.max(redis.call('PTTL', t.mark), 60000)
  end
  if t.expires then c.gone[#c.gone + 1] = t.id end
  add_ready(c.sums, list.queue, list.place, -1)
  ended(c.prefix, t.record, t.id, t.state, c.now_ms, keep_ms)
end
