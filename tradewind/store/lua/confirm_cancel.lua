#!lua flags=allow-oom
-- confirm_cancel: the holder has stopped. Saying it twice is harmless.
--
-- KEYS[1] counts  HASH
-- KEYS[2] leases  ZSET  task_id -> lease_until_ms
-- ARGV[1] prefix  for the watch channel
-- EACH KEYS record  HASH
-- EACH ARGV task_id
-- EACH ARGV token         int
-- EACH ARGV epoch         int
-- EACH ARGV retention_ms  int
-- RETURNS {"ok", item...}; item: {"ok", task_id} | {"lost", task_id, state} | {"missing", task_id}
-- @include read now counts changed ended held
local counts, leases, prefix = KEYS[1], KEYS[2], ARGV[1]
local KEYS_EACH, ARGV_EACH = 1, 4
local now_ms = math.floor(now_us() / 1000)
local reply = { 'ok' }
for i = 0, (#KEYS - 2) / KEYS_EACH - 1 do
  local record, a = KEYS[3 + i * KEYS_EACH], 2 + i * ARGV_EACH
  local item = not_reporting(record, ARGV[a], ARGV[a + 1], ARGV[a + 2], 'CANCELLED')
  if not item then
    redis.call('ZREM', leases, ARGV[a])
    count(counts, 'r:' .. (redis.call('HGET', record, 'q') or 'default'), -1) -- see lib/read
    ended(prefix, record, ARGV[a], 'CANCELLED', now_ms, ARGV[a + 3])
    item = { 'ok', ARGV[a] }
  end
  reply[#reply + 1] = item
end
return reply
