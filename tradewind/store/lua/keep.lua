#!lua flags=allow-oom
-- keep: a dead task stays in its region, for now or for good, and says why. So does one that waits
-- and was to leave; its ticket stays good, since that is no change of its state.
--
-- KEYS[1] record  HASH
-- KEYS[2] outbox  ZSET  task_id -> when a courier should look at it, ms
-- KEYS[3] hooks   ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix          for the watch channel
-- ARGV[2] task_id
-- ARGV[3] epoch           int
-- ARGV[4] reason
-- ARGV[5] retry_after_ms  int, of a dead one; "" = settled
-- ARGV[6] hooked          JSON object: queue -> whether it has an on_dead; see lib/announce
-- ARGV[7] state           as the caller read it
-- RETURNS {"ok"} | {"stale"}
-- @include read now changed announce
local record, outbox = KEYS[1], KEYS[2]
local WAITS = { ['PENDING'] = true, ['SCHEDULED'] = true, ['FAILED'] = true }
local v = read(record, 's', 'ep', 'fo', 'se', 'q')
if WAITS[v[1]] and v[1] == ARGV[7] and v[2] == ARGV[3] then
  redis.call('HSET', record, 'fo', ARGV[4])
  return { 'ok' }
end
if v[1] ~= 'DEAD_LETTER' or v[2] ~= ARGV[3] or v[4] then
  if v[1] ~= 'DEAD_LETTER' or v[4] then -- dead at another epoch it is still to be looked at
    redis.call('ZREM', outbox, ARGV[2])
  end
  return { 'stale' }
end
local now_ms = math.floor(now_us() / 1000)
if ARGV[5] == '' then
  redis.call('ZREM', outbox, ARGV[2])
  redis.call('HSET', record, 'fo', ARGV[4], 'se', '1')
  announce(KEYS[3], ARGV[6], ARGV[2], v[5], now_ms)
else
  redis.call('ZADD', outbox, int(now_ms + tonumber(ARGV[5])), ARGV[2])
  if v[3] == ARGV[4] then
    return { 'ok' }
  end
  redis.call('HSET', record, 'fo', ARGV[4])
end
changed(ARGV[1], record, ARGV[2])
return { 'ok' }
