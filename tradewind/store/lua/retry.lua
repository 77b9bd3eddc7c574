#!lua flags=allow-oom
-- retry: an attempt failed; the task waits in state FAILED until it is due.
--
-- KEYS[1] counts  HASH
-- KEYS[2] leases  ZSET  task_id -> lease_until_ms
-- KEYS[3] due     ZSET  task_id -> due_ms
-- ARGV[1] prefix  for the watch channel
-- EACH KEYS record  HASH
-- EACH ARGV task_id
-- EACH ARGV token      int
-- EACH ARGV epoch      int
-- EACH ARGV delay_ms   int
-- EACH ARGV kind       of the failure
-- EACH ARGV message
-- EACH ARGV traceback
-- RETURNS {"ok", item...}; item: {"ok", task_id} | {"lost", task_id, state} | {"missing", task_id}
-- @include now counts changed held
local counts, leases, due, prefix = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local KEYS_EACH, ARGV_EACH = 1, 7
local now_ms = math.floor(now_us() / 1000)
local reply = { 'ok' }
for i = 0, (#KEYS - 3) / KEYS_EACH - 1 do
  local record, a = KEYS[4 + i * KEYS_EACH], 2 + i * ARGV_EACH
  local item = not_held(record, ARGV[a], ARGV[a + 1], ARGV[a + 2], 'FAILED')
  if not item then
    local due_ms = int(now_ms + tonumber(ARGV[a + 3]))
    local queue = redis.call('HGET', record, 'q')
    redis.call('HSET', record, 'st', 'FAILED', 'nx', due_ms, 'ek', ARGV[a + 4],
      'em', ARGV[a + 5], 'et', ARGV[a + 6])
    redis.call('HDEL', record, 'wk')
    redis.call('ZREM', leases, ARGV[a])
    redis.call('ZADD', due, due_ms, ARGV[a])
    count(counts, 'r:' .. queue, -1)
    count(counts, 'f:' .. queue, 1)
    changed(prefix, record, ARGV[a])
    item = { 'ok', ARGV[a] }
  end
  reply[#reply + 1] = item
end
return reply
