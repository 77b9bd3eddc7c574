-- One ticket becomes one claim, appended to the reply: state PROCESSING, lease, token.
-- c: prefix, worker_id, now, now_text, now_ms_text, gone (what drop_expiry takes), sums (what book
-- takes), leased (what ZADD takes).
local function take(c, t, ticket, list, reply)
  local v, more = t.read, t.more -- see look in lib/tickets
  local previous = tonumber(more[6] or 0) or 0
  local token = previous >= c.now and int(previous + 1) or c.now_text
  local attempt, crashes = after(more[8] or '0'), more[4] or '0'
  if is_suspect(list.place) then -- the crash is booked now, or a death that takes all would not be
    crashes = after(crashes)
    redis.call('HSET', t.record, 'cr', crashes, 'bk', '1')
  end
  change(c.prefix, t.record, t.id, t.revision, more[5], 's', 'PROCESSING', 'tk', token,
    'at', attempt, 'wk', c.worker_id, 'sa', c.now_ms_text)
  if more[3] then c.gone[#c.gone + 1] = t.id end
  if more[9] then redis.call('HDEL', t.record, 'fo') end -- why it had not left
  c.leased[#c.leased + 1] = list.lease_until
  c.leased[#c.leased + 1] = t.id
  list.taken = list.taken + 1
  t.state = 'PROCESSING'
  -- Only what was moved, and so has a higher epoch than its first, has a route.
  local route = more[7] and redis.call('HMGET', t.record, 'hc', 'hp') or NONE
  -- One text costs less than ten, for Redis and for whoever reads the reply.
  local n = #reply
  reply[n + 1] = t.id .. ' ' .. list.queue .. ' ' .. v[2] .. ' ' .. list.place .. ' ' .. token
    .. ' ' .. (more[7] or '1') .. ' ' .. attempt .. ' ' .. crashes .. ' ' .. (v[3] or '0')
    .. ' ' .. ticket.turn.ready_ms .. ' ' .. (route[1] or '0')
  reply[n + 2], reply[n + 3] = v[4] or '', route[2] or ''
  return true
end

-- One that is not run: it expired, or is a copy of a fingerprint that was completed and gets the
-- first's result.
local function end_waiting(c, t, list)
  local is_late = is_over(t.more[3], c.now_ms)
  t.state = is_late and 'EXPIRED' or 'COMPLETED'
  local keep_ms = is_late and redis.call('HGET', t.record, 'xk')
  if not is_late then
    local v = redis.call('HMGET', t.first, 'rs', 'rt', 'ro')
    if v[3] then redis.call('HSET', t.record, 'ro', v[3]) end
    redis.call('HSET', t.record, 'rs', v[1] or '')
    if v[2] or not v[1] then redis.call('HSET', t.record, 'rt', v[2] or '') end
    keep_ms = math.max(redis.call('PTTL', t.mark), 60000)
  end
  if t.more[3] then c.gone[#c.gone + 1] = t.id end
  add_ready(c.sums, list.queue, list.place, -1)
  ended(c.prefix, t.record, t.id, t.state, c.now_ms, keep_ms)
end
