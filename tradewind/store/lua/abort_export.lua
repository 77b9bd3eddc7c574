#!lua flags=allow-oom
-- abort_export: the target has promised never to take this move; the task is what it was before,
-- dead since the same moment and with no more retention than it had.
--
-- KEYS[1] record      HASH
-- KEYS[2] counts      HASH
-- KEYS[3] dead        ZSET
-- KEYS[4] dead_until  ZSET
-- KEYS[5] outbox      ZSET
-- KEYS[6] moving      ZSET
-- KEYS[7] hooks       ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix          for the watch channel
-- ARGV[2] task_id
-- ARGV[3] epoch           int, of the move
-- ARGV[4] target          region
-- ARGV[5] reason
-- ARGV[6] retry_after_ms  int, "" = settled
-- ARGV[7] hooked          JSON object: queue -> whether it has an on_dead; see lib/announce
-- RETURNS {"ok", state} | {"stale", state, epoch, target}
-- @include read now counts changed announce bury
local record, counts, moving = KEYS[1], KEYS[2], KEYS[6]
local keys = { counts = counts, dead = KEYS[3], dead_until = KEYS[4], outbox = KEYS[5],
  hooks = KEYS[7], hooked = ARGV[7] }
local v = read(record, 's', 'ep', 'mt', 'q', 'dk', 'ms', 'fa', 'du')
if v[1] ~= 'MOVING' or v[2] ~= ARGV[3] or v[3] ~= ARGV[4] then
  return { 'stale', v[1] or '', v[2] or '0', v[3] or '' }
end
local now_ms = math.floor(now_us() / 1000)
redis.call('ZREM', moving, ARGV[2])
redis.call('HDEL', record, 'mt', 'ms', 'du')
local move_at_ms = ARGV[6] ~= '' and now_ms + tonumber(ARGV[6]) or nil
bury(keys, ARGV[1], record, ARGV[2], v[4], v[5], tonumber(v[7]), tonumber(v[8]), move_at_ms,
  ARGV[5])
count(counts, 'm:' .. v[4], -1)
return { 'ok', v[6] }
