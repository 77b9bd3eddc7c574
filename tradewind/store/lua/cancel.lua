#!lua flags=allow-oom
-- cancel: a waiting or dead task ends CANCELLED at once. One that runs is marked, and its holder is
-- told; it is cancelled when the holder confirms, or at any other report but success. Asked again,
-- the answer is the same, and the holder is told again.
--
-- KEYS[1] record      HASH
-- KEYS[2] counts      HASH
-- KEYS[3] due_high    ZSET  task_id -> due_ms
-- KEYS[4] due_normal  ZSET
-- KEYS[5] due_low     ZSET
-- KEYS[6] expiry      ZSET  task_id -> expires_ms, of what waits
-- KEYS[7] dead        ZSET
-- KEYS[8] dead_until  ZSET
-- KEYS[9] outbox      ZSET
-- KEYS[10] hooks      ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix        of the partition's keys
-- ARGV[2] task_id
-- ARGV[3] retention_ms  int, of the record once cancelled
-- RETURNS {"cancelled"} | {"requested"} | {"late", state} | {"pointer", mark, epoch, target}
-- RETURNS | {"missing"} | {"moving"}
-- @include read now here places counts changed ended due waiting
local record, counts, expiry = KEYS[1], KEYS[2], KEYS[6]
local due = { KEYS[3], KEYS[4], KEYS[5] }
local prefix, task_id = ARGV[1], ARGV[2]
local v = read(record, 's', 'q', 'pr', 'cq', 'ep', 'mt', 'cr')
local state = v[1]
if not state or state == 'PURGED' then
  return { 'missing' }
elseif state == 'FORWARDED' or state == 'REFUSED' then
  return { 'pointer', state, v[5], v[6] or '' }
elseif state == 'CANCELLED' then
  return { 'cancelled' }
elseif state == 'COMPLETED' or state == 'EXPIRED' or state == 'MOVING' then
  return { 'late', state }
elseif state == 'PROCESSING' then
  if not v[4] then
    redis.call('HSET', record, 'cq', ARGV[3])
    changed(prefix, record, task_id)
  end
  redis.call('SPUBLISH', prefix .. 'cancels', task_id)
  return { 'requested' }
end
local place = place_of(v[3], v[7])
if not here({ list_at(prefix, v[2], v[3]), list_at(prefix, v[2], place) }) then
  return { 'moving' }
end
local now_ms = math.floor(now_us() / 1000)
if stop_waiting(prefix, counts, due, task_id, state, v[2], place) then
  redis.call('ZREM', expiry, task_id)
else
  redis.call('ZREM', KEYS[7], task_id)
  redis.call('ZREM', KEYS[8], task_id)
  redis.call('ZREM', KEYS[9], task_id)
  redis.call('ZREM', KEYS[10], task_id)
  count(counts, 'd:' .. v[2], -1)
end
ended(prefix, record, task_id, 'CANCELLED', now_ms, ARGV[3])
return { 'cancelled' }
