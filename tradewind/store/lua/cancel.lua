#!lua flags=allow-oom
-- cancel: a waiting or dead task ends CANCELLED at once. One that runs is marked, and its holder is
-- told; it is cancelled when the holder confirms, or at any other report but success. Asked again,
-- the answer is the same, and the holder is told again.
--
-- KEYS[1] record      HASH
-- KEYS[2] counts      HASH
-- KEYS[3] due         ZSET  task_id -> due_ms
-- KEYS[4] expiry      ZSET  task_id -> expires_ms, of what waits
-- KEYS[5] dead        ZSET
-- KEYS[6] dead_until  ZSET
-- KEYS[7] outbox      ZSET
-- ARGV[1] prefix        of the partition's keys
-- ARGV[2] task_id
-- ARGV[3] retention_ms  int, of the record once cancelled
-- RETURNS {"cancelled"} | {"requested"} | {"late", state} | {"pointer", mark, epoch, target}
-- RETURNS | {"missing"} | {"moving"}
-- @include now here counts changed ended waiting
local record, counts, due, expiry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, task_id = ARGV[1], ARGV[2]
local v = redis.call('HMGET', record, 'st', 'q', 'pr', 'cq', 'ep', 'mt')
local state = v[1]
if not state then
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
if not here({ prefix .. 'q:' .. v[2] .. ':' .. v[3] }) then
  return { 'moving' }
end
local now_ms = math.floor(now_us() / 1000)
if stop_waiting(prefix, counts, due, task_id, state, v[2], v[3]) then
  redis.call('ZREM', expiry, task_id)
else
  redis.call('ZREM', KEYS[5], task_id)
  redis.call('ZREM', KEYS[6], task_id)
  redis.call('ZREM', KEYS[7], task_id)
  count(counts, 'd:' .. v[2], -1)
end
ended(prefix, record, task_id, 'CANCELLED', now_ms, ARGV[3])
return { 'cancelled' }
