#!lua flags=allow-oom
-- reap: take back leases that ended without a word from their holder. What that leads to is in
-- lib/crash.
--
-- KEYS[1] counts      HASH
-- KEYS[2] leases      ZSET  task_id -> lease_until_ms
-- KEYS[3] dead        ZSET
-- KEYS[4] dead_until  ZSET
-- KEYS[5] outbox      ZSET
-- KEYS[6] expiry      ZSET  task_id -> expires_ms, of what waits
-- KEYS[7] hooks       ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix  of the partition's keys: records are learnt from leases
-- ARGV[2] limit   int
-- ARGV[3] deaths  JSON object: queue -> {retention_ms, move_after_ms or -1}; "" = the others
-- ARGV[4] hooked  JSON object: queue -> whether it has an on_dead; see lib/announce
-- RETURNS {"ok", item...}; item: {task_id, worker_id, state, queue}
-- RETURNS | {"moving"}
-- @include read now here places counts wake changed ready ended over instead announce bury crash
local leases, prefix, limit = KEYS[2], ARGV[1], tonumber(ARGV[2])
local keys = { counts = KEYS[1], leases = leases, dead = KEYS[3], dead_until = KEYS[4],
  outbox = KEYS[5], expiry = KEYS[6], hooks = KEYS[7], hooked = ARGV[4] }
local now_ms = math.floor(now_us() / 1000)
local deaths = cjson.decode(ARGV[3])

local found = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', int(now_ms), 'LIMIT', 0, limit)) do
  local record = prefix .. 't:' .. id
  if not here({ record }) then
    return { 'moving' }
  end
  local t = run_of(record, id)
  local place = t.state and place_of(t.priority, t.crashes)
  if place and not here({ list_at(prefix, t.queue, place), hint_of(prefix, t.queue, place) }) then
    return { 'moving' }
  end
  found[#found + 1] = t
end

local reply = { 'ok' }
for _, t in ipairs(found) do
  if t.state ~= 'PROCESSING' then
    redis.call('ZREM', leases, t.id)
  else
    local retention_ms, move_after_ms = unpack(deaths[t.queue] or deaths[''])
    local moves = move_after_ms >= 0
    local message = 'worker ' .. t.worker .. ' was lost: its lease ended without a word'
    local state = crash(keys, prefix, t, message, now_ms, { retention_ms = retention_ms,
      move_after_ms = moves and move_after_ms or nil,
      failover = moves and '' or 'tasks of this queue that crashed are not moved' })
    reply[#reply + 1] = { t.id, t.worker, state, t.queue }
  end
end
return reply
