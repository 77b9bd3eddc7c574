#!lua flags=allow-oom
-- renew: extend leases that the caller still holds, counted from this server's now. Says whether
-- the task's cancel was asked for, since a published word of it may be missed.
--
-- KEYS[1] leases  ZSET  task_id -> lease_until_ms
-- EACH KEYS record  HASH
-- EACH ARGV task_id
-- EACH ARGV token     int
-- EACH ARGV epoch     int
-- EACH ARGV lease_ms  int
-- RETURNS {"ok", item...}; item: {"ok", task_id, cancel_requested} | {"lost", task_id, state}
-- RETURNS | {"missing", task_id}
-- @include read now held
local leases = KEYS[1]
local KEYS_EACH, ARGV_EACH = 1, 4
local now_ms = math.floor(now_us() / 1000)
local reply = { 'ok' }
for i = 0, (#KEYS - 1) / KEYS_EACH - 1 do
  local record, a = KEYS[2 + i * KEYS_EACH], 1 + i * ARGV_EACH
  local item = not_held(record, ARGV[a], ARGV[a + 1], ARGV[a + 2], '')
  if not item then
    redis.call('ZADD', leases, int(now_ms + tonumber(ARGV[a + 3])), ARGV[a])
    item = { 'ok', ARGV[a], redis.call('HEXISTS', record, 'cq') }
  end
  reply[#reply + 1] = item
end
return reply
