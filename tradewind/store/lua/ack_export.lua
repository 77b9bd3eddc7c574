#!lua flags=allow-oom
-- ack_export: the target has the task. What is left here is a forward pointer.
--
-- KEYS[1] record  HASH
-- KEYS[2] counts  HASH
-- KEYS[3] moving  ZSET
-- KEYS[4] evacuated  HASH  see passed
-- ARGV[1] prefix   for the watch channel
-- ARGV[2] task_id
-- ARGV[3] epoch    int, of the move
-- ARGV[4] target   region
-- ARGV[5] keep_ms  int, of the pointer
-- ARGV[6] order_ms      int, which evacuation it counts for if it left for one; 0 = none
-- ARGV[7] count_ttl_ms  int, of what is counted of an evacuation
-- RETURNS {"ok"} | {"stale", state, epoch, target}
-- @include read counts changed remains evacuated
local record, counts, moving = KEYS[1], KEYS[2], KEYS[3]
local v = read(record, 's', 'ep', 'mt', 'q', 'mr')
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
if v[5] == 'evacuation' and ARGV[6] ~= '0' then
  of_order(KEYS[4], ARGV[6])
  redis.call('HINCRBY', KEYS[4], 'moved', 1)
  redis.call('PEXPIRE', KEYS[4], ARGV[7])
end
return { 'ok' }
