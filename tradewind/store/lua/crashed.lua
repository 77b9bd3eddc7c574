#!lua flags=allow-oom
-- crashed: the child that ran the attempt died without a report; its worker says so. What that
-- leads to is in lib/crash. Saying it twice is harmless.
--
-- KEYS[1] counts      HASH
-- KEYS[2] leases      ZSET  task_id -> lease_until_ms
-- KEYS[3] dead        ZSET
-- KEYS[4] dead_until  ZSET
-- KEYS[5] outbox      ZSET
-- KEYS[6] expiry      ZSET  task_id -> expires_ms, of what waits
-- KEYS[7] hooks       ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix  for the watch channel
-- ARGV[2] hooked  JSON object: queue -> whether it has an on_dead; see lib/announce
-- EACH KEYS record  HASH
-- EACH KEYS ready   LIST  tickets of the suspects of its queue and priority
-- EACH KEYS wake    LIST  the hint that suspects of its queue wait
-- EACH ARGV task_id
-- EACH ARGV token          int
-- EACH ARGV epoch          int
-- EACH ARGV message        of the failure
-- EACH ARGV retention_ms   int, of a dead one
-- EACH ARGV move_after_ms  int, "" = settled here
-- EACH ARGV failover       why it will not move on, or ""
-- RETURNS {"ok", item...}; item: {"ok", task_id} | {"ok", task_id, state}
-- RETURNS | {"lost", task_id, state} | {"missing", task_id}
-- @include read now places counts wake changed ready ended over held instead announce bury crash
local keys = { counts = KEYS[1], leases = KEYS[2], dead = KEYS[3], dead_until = KEYS[4],
  outbox = KEYS[5], expiry = KEYS[6], hooks = KEYS[7], hooked = ARGV[2] }
local prefix = ARGV[1]
local KEYS_EACH, ARGV_EACH = 3, 7
local now_ms = math.floor(now_us() / 1000)
local reply = { 'ok' }
for i = 0, (#KEYS - 7) / KEYS_EACH - 1 do
  local record, a = KEYS[8 + i * KEYS_EACH], 3 + i * ARGV_EACH
  local item = not_held(record, ARGV[a], ARGV[a + 1], ARGV[a + 2], 'PENDING', true)
  if not item then
    local state = crash(keys, prefix, run_of(record, ARGV[a]), ARGV[a + 3], now_ms, {
      retention_ms = tonumber(ARGV[a + 4]), move_after_ms = tonumber(ARGV[a + 5]),
      failover = ARGV[a + 6] })
    item = { 'ok', ARGV[a], state ~= 'PENDING' and state or nil }
  elseif item[3] == 'DEAD_LETTER' then
    local v = read(record, 'dk', 'tk', 'ep')
    if v[1] == 'crashed' and v[2] == ARGV[a + 1] and v[3] == ARGV[a + 2] then
      item[1] = 'ok' -- a repeat: of this very call, or of a lease that ended in between
    end
  end
  reply[#reply + 1] = item
end
return reply
