#!lua flags=allow-oom
-- begin_export: from now on only `target` may get this task. Epoch + 1 and the target are written
-- down before anything leaves, or a retry after a lost answer could pick a second region; and with
-- them what abort_export restores. Repeated for the same target, the answer is the same. What runs
-- or has ended goes nowhere, what is settled leaves as it is: a dead letter, once others have heard
-- of its death or word of it goes along. A ticket goes stale by itself: lists are not searched.
--
-- KEYS[1] record      HASH
-- KEYS[2] counts      HASH
-- KEYS[3] dead        ZSET
-- KEYS[4] dead_until  ZSET
-- KEYS[5] outbox      ZSET
-- KEYS[6] moving      ZSET  task_id -> begun_ms
-- KEYS[7] due_high    ZSET  task_id -> due_ms
-- KEYS[8] due_normal  ZSET
-- KEYS[9] due_low     ZSET
-- KEYS[10] expiry     ZSET  task_id -> expires_ms, of what waits
-- KEYS[11] hooks      ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix   of the partition's keys: lists are learnt from the record
-- ARGV[2] task_id
-- ARGV[3] epoch    int, as the caller read it
-- ARGV[4] target   region
-- ARGV[5] groups   of the caller's own region, comma-separated: it must be inside the fence
-- ARGV[6] reason   why a waiting task moves, or a dead letter as it is; "" = for its kind of death
-- ARGV[7] state    as the caller read it: the target was chosen for a task in that state
-- ARGV[8] tell_ms  int, for so long word of a death is left to this region
-- RETURNS {"ok", now_ms, fields} | {"fenced"} | {"stale", state, epoch, target} | {"untold"}
-- RETURNS | {"moving"}
-- @include read now here places counts changed due waiting fence
local record, counts, dead, dead_until = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local outbox, moving, due = KEYS[5], KEYS[6], { KEYS[7], KEYS[8], KEYS[9] }
local hooks = KEYS[11]
local prefix, task_id, target = ARGV[1], ARGV[2], ARGV[4]
local LEAVES = { ['PENDING'] = true, ['SCHEDULED'] = true, ['FAILED'] = true,
  ['DEAD_LETTER'] = true }
local now_ms = int(math.floor(now_us() / 1000))
local v = read(record, 's', 'ep', 'mt', 'fn', 'q', 'se', 'pr', 'cr', 'ht')
if not inside(v[4], ARGV[5]) then
  return { 'fenced' }
end
if v[1] == 'MOVING' and v[3] == target and tonumber(v[2]) == tonumber(ARGV[3]) + 1 then
  return { 'ok', now_ms, redis.call('HGETALL', record) }
end
local rests = v[1] == 'DEAD_LETTER' and ARGV[6] ~= ''
if not LEAVES[v[1]] or v[1] ~= ARGV[7] or v[2] ~= ARGV[3] or (not v[6]) == rests then
  return { 'stale', v[1] or '', v[2] or '0', v[3] or '' }
end
local untold_ms = rests and redis.call('ZSCORE', hooks, task_id)
if untold_ms and not v[9] and tonumber(untold_ms) > now_ms - tonumber(ARGV[8]) then
  return { 'untold' }
end
local place = place_of(v[7], v[8])
if not here({ list_at(prefix, v[5], v[7]), list_at(prefix, v[5], place) }) then
  return { 'moving' }
end
redis.call('HSET', record, 's', 'MOVING', 'mt', target, 'ep', v[2] + 1, 'ms', v[1], 'mb', now_ms)
redis.call('ZADD', moving, now_ms, task_id)
count(counts, 'm:' .. v[5], 1) -- before what may empty the key
if stop_waiting(prefix, counts, due, task_id, v[1], v[5], place) then
  redis.call('HSET', record, 'mr', ARGV[6])
  redis.call('ZREM', KEYS[10], task_id)
else
  redis.call('HSET', record, 'du', redis.call('ZSCORE', dead_until, task_id) or '0')
  if rests then
    redis.call('HSET', record, 'mr', ARGV[6])
  end
  if untold_ms then
    redis.call('HSET', record, 'hk', untold_ms)
    redis.call('ZREM', hooks, task_id)
  end
  redis.call('ZREM', dead, task_id)
  redis.call('ZREM', dead_until, task_id)
  redis.call('ZREM', outbox, task_id)
  count(counts, 'd:' .. v[5], -1)
end
changed(prefix, record, task_id)
return { 'ok', now_ms, redis.call('HGETALL', record) }
