-- One ticket becomes one claim: state PROCESSING, lease, token.
-- c: prefix, counts, leases, worker_id, now, now_ms, gone (what drop_expiry takes).
local function take(c, t, ticket, list)
  local v = redis.call('HMGET', t.record, 'tk', 'ep', 'at', 'cr', 'ca', 'hc', 'sp', 'hp')
  local token = int(math.max(tonumber(v[1] or 0) + 1, c.now))
  local attempt = tonumber(v[3] or 0) + 1
  local crashes = tonumber(v[4] or 0)
  redis.call('HSET', t.record, 'st', 'PROCESSING', 'tk', token, 'at', attempt, 'wk', c.worker_id,
    'sa', int(c.now_ms))
  if is_suspect(list.place) then -- the crash is booked now, or a death that takes all would not be
    crashes = crashes + 1
    redis.call('HSET', t.record, 'cr', crashes, 'bk', '1')
  end
  if t.expires then c.gone[#c.gone + 1] = t.id end
  redis.call('ZADD', c.leases, int(c.now_ms + list.lease_ms), t.id)
  count(c.counts, 'r:' .. list.queue, 1)
  count_ready(c.counts, list.queue, list.place, -1)
  changed(c.prefix, t.record, t.id)
  t.state = 'PROCESSING'
  return { t.id, list.queue, t.name, list.place, token, v[2], attempt, crashes, v[5] or '0',
    int(ticket.ready_ms), v[6] or '0', v[7] or '', v[8] or '' }
end

-- One that is not run: it expired, or is a copy of a fingerprint that was completed and gets the
-- first's result.
local function end_waiting(c, t, list)
  t.state = t.over and 'EXPIRED' or 'COMPLETED'
  local keep_ms = t.over and redis.call('HGET', t.record, 'xk')
  if not t.over then
    local v = redis.call('HMGET', t.first, 'rs', 'rt')
    redis.call('HSET', t.record, 'rs', v[1] or '', 'rt', v[2] or '')
    keep_ms = math.max(redis.call('PTTL', t.mark), 60000)
  end
  if t.expires then c.gone[#c.gone + 1] = t.id end
  count_ready(c.counts, list.queue, list.place, -1)
  ended(c.prefix, t.record, t.id, t.state, c.now_ms, keep_ms)
end

-- Redeems the tickets of one pass that were looked at, until `want` claims are made.
-- Appends claims to the reply, notes in list.left what remains; returns what is still wanted.
local function redeem(c, pass, want, reply)
  local list = pass.list
  -- Read before tickets go: the list may be emptied, and is not touched again then.
  list.left = list.left or list.empty and list.added or redis.call('LLEN', list.key)
  list.upto = list.upto or list.looked + list.added
  local upto = (want > 0 and list.left > 0) and list.upto or 0
  local used = 0
  for _, text in ipairs(upto > 0 and redis.call('LRANGE', list.key, 0, upto - 1) or {}) do
    local ticket = parse(text)
    local t = c.seen[ticket.id]
    if want == 0 or not t or ticket.since_ms >= pass.before_ms then
      break
    end
    used = used + 1
    if is_good(t, ticket) then
      if t.only_ends then
        end_waiting(c, t, list)
      elseif is_misplaced(t, list) then
        displace(c, t, ticket, list)
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
    list.left, list.upto = list.left - used, list.upto - used
  end
  return want
end

local function redeem_all(c, passes, want, reply)
  for _, pass in ipairs(passes) do
    want = redeem(c, pass, want, reply)
  end
end
