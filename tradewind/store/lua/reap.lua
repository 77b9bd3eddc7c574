#!lua flags=allow-oom
-- reap: take back leases that ended without a word from their holder. No attempt is used; the
-- crash is counted apart, and too many of them are a death of their own. One whose cancel was asked
-- for ends CANCELLED.
--
-- KEYS[1] counts      HASH
-- KEYS[2] leases      ZSET  task_id -> lease_until_ms
-- KEYS[3] dead        ZSET
-- KEYS[4] dead_until  ZSET
-- KEYS[5] outbox      ZSET
-- KEYS[6] expiry      ZSET  task_id -> expires_ms, of what waits
-- ARGV[1] prefix  of the partition's keys: records are learnt from leases
-- ARGV[2] limit   int
-- ARGV[3] deaths  JSON object: queue -> {retention_ms, move_after_ms or -1}; "" = the others
-- RETURNS {"ok", item...}; item: {task_id, worker_id, state, queue}
-- RETURNS | {"moving"}
-- @include now here counts wake changed ready ended over instead bury
local leases, expiry, prefix, limit = KEYS[2], KEYS[6], ARGV[1], tonumber(ARGV[2])
local keys = { counts = KEYS[1], dead = KEYS[3], dead_until = KEYS[4], outbox = KEYS[5] }
local now_ms = math.floor(now_us() / 1000)
local deaths = cjson.decode(ARGV[3])

local found = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', int(now_ms), 'LIMIT', 0, limit)) do
  local record = prefix .. 't:' .. id
  if not here({ record }) then
    return { 'moving' }
  end
  local v = redis.call('HMGET', record, 'st', 'q', 'pr', 'at', 'cr', 'mc', 'wk')
  if v[2] and not here({ prefix .. 'q:' .. v[2] .. ':' .. v[3], prefix .. 'wake:' .. v[2] }) then
    return { 'moving' }
  end
  found[#found + 1] = { id = id, record = record, state = v[1], queue = v[2], priority = v[3],
    crashes = tonumber(v[5] or 0) + 1, max_crashes = tonumber(v[6] or 3), worker = v[7] or '' }
end

local reply = { 'ok' }
for _, t in ipairs(found) do
  if t.state ~= 'PROCESSING' then
    redis.call('ZREM', leases, t.id)
  elseif cancelled_instead(keys.counts, leases, prefix, t.record, t.id, now_ms) then
    reply[#reply + 1] = { t.id, t.worker, 'CANCELLED', t.queue }
  else
    redis.call('ZREM', leases, t.id)
    count(keys.counts, 'r:' .. t.queue, -1)
    redis.call('HINCRBY', t.record, 'at', -1)
    redis.call('HSET', t.record, 'cr', t.crashes, 'ek', 'worker-lost',
      'em', 'worker ' .. t.worker .. ' was lost: its lease ended without a word', 'et', '')
    redis.call('HDEL', t.record, 'wk', 'pf', 'pn')
    local state = 'PENDING'
    if t.crashes >= t.max_crashes then
      state = 'DEAD_LETTER'
      local retention_ms, move_after_ms = unpack(deaths[t.queue] or deaths[''])
      local move_at_ms = move_after_ms >= 0 and now_ms + move_after_ms or nil
      bury(keys, prefix, t.record, t.id, t.queue, 'crashed', now_ms, now_ms + retention_ms,
        move_at_ms, move_at_ms and '' or 'tasks of this queue that crashed are not moved')
    else
      make_ready(prefix, keys.counts, t.record, t.id, t.queue, t.priority, now_ms, true)
      may_expire(expiry, t.record, t.id)
      wake(prefix .. 'wake:' .. t.queue)
    end
    reply[#reply + 1] = { t.id, t.worker, state, t.queue }
  end
end
return reply
