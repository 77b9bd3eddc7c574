#!lua flags=allow-oom
-- release: hand back what has not started, or may not go on; no attempt is used. It ends instead if
-- its cancel was asked for.
--
-- KEYS[1] counts  HASH
-- KEYS[2] leases  ZSET  task_id -> lease_until_ms
-- KEYS[3] expiry  ZSET  task_id -> expires_ms, of what waits
-- ARGV[1] prefix  of the partition's keys
-- EACH KEYS record  HASH
-- EACH KEYS ready   LIST  tickets of its queue and place: see lib/places
-- EACH KEYS wake    LIST  the hint that tells of them
-- EACH ARGV task_id
-- EACH ARGV token     int
-- EACH ARGV epoch     int
-- EACH ARGV queue
-- EACH ARGV place
-- RETURNS {"ok", item...}; item: {"ok", task_id} | {"ok", task_id, state}
-- RETURNS | {"lost", task_id, state} | {"missing", task_id}
-- @include read now counts wake changed ready ended over held instead
local counts, leases, expiry, prefix = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local KEYS_EACH, ARGV_EACH = 3, 5
local now_ms = math.floor(now_us() / 1000)
local reply = { 'ok' }
for i = 0, (#KEYS - 3) / KEYS_EACH - 1 do
  local record, a = KEYS[4 + i * KEYS_EACH], 2 + i * ARGV_EACH
  local item = not_reporting(record, ARGV[a], ARGV[a + 1], ARGV[a + 2], 'PENDING', true)
    or cancelled_instead(counts, leases, prefix, record, ARGV[a], now_ms)
  if not item then
    redis.call('HINCRBY', record, 'at', -1)
    redis.call('HDEL', record, 'wk', 'pf', 'pn')
    redis.call('ZREM', leases, ARGV[a])
    make_ready(prefix, counts, record, ARGV[a], ARGV[a + 3], ARGV[a + 4], now_ms, true)
    count(counts, 'r:' .. ARGV[a + 3], -1)
    may_expire(expiry, record, ARGV[a])
    wake(KEYS[6 + i * KEYS_EACH])
    item = { 'ok', ARGV[a] }
  end
  reply[#reply + 1] = item
end
return reply
