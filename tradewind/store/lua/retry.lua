#!lua flags=allow-oom
-- retry: an attempt failed; the task waits in state FAILED until it is due. It ends instead if its
-- cancel was asked for, or if it has expired.
--
-- KEYS[1] counts      HASH
-- KEYS[2] leases      ZSET  task_id -> lease_until_ms
-- KEYS[3] due_high    ZSET  task_id -> due_ms
-- KEYS[4] due_normal  ZSET
-- KEYS[5] due_low     ZSET
-- KEYS[6] expiry      ZSET  task_id -> expires_ms, of what waits
-- ARGV[1] prefix  for the watch channel
-- EACH KEYS record  HASH
-- EACH ARGV task_id
-- EACH ARGV token      int
-- EACH ARGV epoch      int
-- EACH ARGV delay_ms   int
-- EACH ARGV kind       of the failure
-- EACH ARGV message
-- EACH ARGV traceback
-- RETURNS {"ok", item...}; item: {"ok", task_id} | {"ok", task_id, state}
-- RETURNS | {"lost", task_id, state} | {"missing", task_id}
-- @include read now counts changed ended due over held instead
local counts, leases, expiry = KEYS[1], KEYS[2], KEYS[6]
local due = { KEYS[3], KEYS[4], KEYS[5] }
local prefix = ARGV[1]
local KEYS_EACH, ARGV_EACH = 1, 7
local now_ms = math.floor(now_us() / 1000)
local reply = { 'ok' }
for i = 0, (#KEYS - 6) / KEYS_EACH - 1 do
  local record, a = KEYS[7 + i * KEYS_EACH], 2 + i * ARGV_EACH
  local item = not_reporting(record, ARGV[a], ARGV[a + 1], ARGV[a + 2], 'FAILED', true)
    or cancelled_instead(counts, leases, prefix, record, ARGV[a], now_ms)
  if not item then
    local v = read(record, 's', 'q', 'ex', 'xk', 'pr')
    redis.call('HSET', record, 'ek', ARGV[a + 4], 'em', ARGV[a + 5], 'et', ARGV[a + 6])
    redis.call('HDEL', record, 'wk', 'pf', 'pn')
    redis.call('ZREM', leases, ARGV[a])
    count(counts, 'r:' .. v[2], -1)
    if is_over(v[3], now_ms) then
      ended(prefix, record, ARGV[a], 'EXPIRED', now_ms, v[4])
      item = { 'ok', ARGV[a], 'EXPIRED' }
    else
      local due_ms = now_ms + tonumber(ARGV[a + 3])
      redis.call('HSET', record, 's', 'FAILED', 'nx', int(due_ms))
      be_due(due, v[5], ARGV[a], due_ms)
      may_expire(expiry, record, ARGV[a])
      count(counts, 'f:' .. v[2], 1)
      changed(prefix, record, ARGV[a])
      item = { 'ok', ARGV[a] }
    end
  end
  reply[#reply + 1] = item
end
return reply
