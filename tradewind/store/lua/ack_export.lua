#!lua flags=allow-oom
-- ack_export: the target has the task. What is left here is a forward pointer.
--
-- KEYS[1] record  HASH
-- KEYS[2] counts  HASH
-- KEYS[3] moving  ZSET
-- ARGV[1] prefix   for the watch channel
-- ARGV[2] task_id
-- ARGV[3] epoch    int, of the move
-- ARGV[4] target   region
-- ARGV[5] keep_ms  int, of the pointer
-- RETURNS {"ok"} | {"stale", state, epoch, target}
-- @include read counts changed remains
local record, counts, moving = KEYS[1], KEYS[2], KEYS[3]
local v = read(record, 's', 'ep', 'mt', 'q')
if v[2] ~= ARGV[3] or v[3] ~= ARGV[4] then
  return { 'stale', v[1] or '', v[2] or '0', v[3] or '' }
end
if v[1] == 'FORWARDED' then
  return { 'ok' }
end
if v[1] ~= 'MOVING' then
  return { 'stale', v[1], v[2], v[3] }
end
redis.call('HSET', record, 's', 'FORWARDED')
changed(ARGV[1], record, ARGV[2])
remains(record)
redis.call('PEXPIRE', record, ARGV[5])
redis.call('ZREM', moving, ARGV[2])
count(counts, 'm:' .. v[4], -1)
return { 'ok' }
