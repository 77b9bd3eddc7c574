#!lua flags=allow-oom
-- bury: no attempt is left, or the handler said no. To the dead letters, unless its cancel was
-- asked for.
--
-- KEYS[1] counts      HASH
-- KEYS[2] leases      ZSET  task_id -> lease_until_ms
-- KEYS[3] dead        ZSET  task_id -> died_ms
-- KEYS[4] dead_until  ZSET  task_id -> purged_ms
-- KEYS[5] outbox      ZSET  task_id -> when a courier should look at it, ms
-- KEYS[6] hooks       ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix  for the watch channel
-- ARGV[2] hooked  JSON object: queue -> whether it has an on_dead; see lib/announce
-- EACH KEYS record  HASH
-- EACH ARGV task_id
-- EACH ARGV token          int
-- EACH ARGV epoch          int
-- EACH ARGV retention_ms   int
-- EACH ARGV death          kind of death
-- EACH ARGV move_after_ms  int, "" = settled here
-- EACH ARGV failover       why it will not move on, or ""
-- EACH ARGV kind           of the failure
-- EACH ARGV message
-- EACH ARGV traceback
-- RETURNS {"ok", item...}; item: {"ok", task_id} | {"ok", task_id, state}
-- RETURNS | {"lost", task_id, state} | {"missing", task_id}
-- @include read now counts changed ended held instead announce bury
local leases, prefix = KEYS[2], ARGV[1]
local keys = { counts = KEYS[1], dead = KEYS[3], dead_until = KEYS[4], outbox = KEYS[5],
  hooks = KEYS[6], hooked = ARGV[2] }
local KEYS_EACH, ARGV_EACH = 1, 10
local now_ms = math.floor(now_us() / 1000)
local reply = { 'ok' }
for i = 0, (#KEYS - 6) / KEYS_EACH - 1 do
  local record, a = KEYS[7 + i * KEYS_EACH], 3 + i * ARGV_EACH
  local item = not_reporting(record, ARGV[a], ARGV[a + 1], ARGV[a + 2], 'DEAD_LETTER', true)
    or cancelled_instead(keys.counts, leases, prefix, record, ARGV[a], now_ms)
  if not item then
    local queue = redis.call('HGET', record, 'q') or 'default' -- see lib/read
    redis.call('HSET', record, 'ek', ARGV[a + 7], 'em', ARGV[a + 8], 'et', ARGV[a + 9])
    redis.call('ZREM', leases, ARGV[a])
    count(keys.counts, 'r:' .. queue, -1)
    local move_at_ms = ARGV[a + 5] ~= '' and now_ms + tonumber(ARGV[a + 5]) or nil
    bury(keys, prefix, record, ARGV[a], queue, ARGV[a + 4], now_ms,
      now_ms + tonumber(ARGV[a + 3]), move_at_ms, ARGV[a + 6])
    item = { 'ok', ARGV[a] }
  end
  reply[#reply + 1] = item
end
return reply
