#!lua flags=allow-oom
-- abort_export: the target has promised never to take this move; the task is what it was before.
-- A dead one is dead since the same moment and with no more retention than it had, settled if it
-- was, and word of it as due as before. A waiting one is first in its line or due when it was, may
-- expire again, and somebody is told of it.
--
-- KEYS[1] record       HASH
-- KEYS[2] counts       HASH
-- KEYS[3] dead         ZSET
-- KEYS[4] dead_until   ZSET
-- KEYS[5] outbox       ZSET
-- KEYS[6] moving       ZSET
-- KEYS[7] hooks        ZSET  task_id -> when on_dead is to hear of it, ms
-- KEYS[8] due_high     ZSET  task_id -> due_ms
-- KEYS[9] due_normal   ZSET
-- KEYS[10] due_low     ZSET
-- KEYS[11] expiry      ZSET  task_id -> expires_ms, of what waits
-- ARGV[1] prefix          of the partition's keys: list and hint are learnt from the record
-- ARGV[2] task_id
-- ARGV[3] epoch           int, of the move
-- ARGV[4] target          region
-- ARGV[5] reason
-- ARGV[6] retry_after_ms  int, of a dead one that was not settled; "" = it is now
-- ARGV[7] hooked          JSON object: queue -> whether it has an on_dead; see lib/announce
-- RETURNS {"ok", state} | {"stale", state, epoch, target} | {"moving"}
-- @include read now here places counts wake changed ready over due delay announce bury
local record, counts, moving, task_id = KEYS[1], KEYS[2], KEYS[6], ARGV[2]
local keys = { counts = counts, dead = KEYS[3], dead_until = KEYS[4], outbox = KEYS[5],
  hooks = KEYS[7], hooked = ARGV[7] }
local v = read(record, 's', 'ep', 'mt', 'q', 'dk', 'ms', 'fa', 'du', 'pr', 'cr', 'nx',
  'mr', 'fo', 'hk')
local rests = v[6] == 'DEAD_LETTER' and v[12]
if v[1] ~= 'MOVING' or v[2] ~= ARGV[3] or v[3] ~= ARGV[4] then
  return { 'stale', v[1] or '', v[2] or '0', v[3] or '' }
end
local place = place_of(v[9], v[10])
local hint = hint_of(ARGV[1], v[4], place)
if not here({ list_at(ARGV[1], v[4], place), hint }) then
  return { 'moving' }
end
local now_ms = math.floor(now_us() / 1000)
redis.call('ZREM', moving, task_id)
redis.call('HDEL', record, 'mt', 'ms', 'mr', 'mb', 'du', 'hk')
if rests then
  keys.hooked = ''
  bury(keys, ARGV[1], record, task_id, v[4], v[5], tonumber(v[7]), tonumber(v[8]), nil, v[13] or '')
  if v[14] then
    redis.call('ZADD', keys.hooks, v[14], task_id)
  end
elseif v[6] == 'DEAD_LETTER' then
  local move_at_ms = ARGV[6] ~= '' and now_ms + tonumber(ARGV[6]) or nil
  bury(keys, ARGV[1], record, task_id, v[4], v[5], tonumber(v[7]), tonumber(v[8]), move_at_ms,
    ARGV[5])
else
  redis.call('HSET', record, 'fo', ARGV[5])
  if v[6] == 'PENDING' then
    make_ready(ARGV[1], counts, record, task_id, v[4], place, now_ms, true)
    wake(hint)
  else
    delay(ARGV[1], counts, { KEYS[8], KEYS[9], KEYS[10] },
      { record = record, id = task_id, queue = v[4], priority = v[9] }, v[6], tonumber(v[11]), hint)
  end
  may_expire(KEYS[11], record, task_id)
end
count(counts, 'm:' .. v[4], -1)
return { 'ok', v[6] }
