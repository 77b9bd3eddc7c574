#!lua flags=allow-oom
-- purge: a dead task goes for good, before its retention has passed.
--
-- KEYS[1] record      HASH
-- KEYS[2] counts      HASH
-- KEYS[3] dead        ZSET
-- KEYS[4] dead_until  ZSET
-- KEYS[5] outbox      ZSET
-- KEYS[6] hooks       ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix  for the watch channel
-- ARGV[2] task_id
-- ARGV[3] epoch   int, as the caller read it
-- RETURNS {"ok"} | {"stale"}
-- @include counts changed
local record = KEYS[1]
local v = redis.call('HMGET', record, 'st', 'ep', 'q')
if v[1] ~= 'DEAD_LETTER' or v[2] ~= ARGV[3] then
  return { 'stale' }
end
changed(ARGV[1], record, ARGV[2])
redis.call('DEL', record)
redis.call('ZREM', KEYS[3], ARGV[2])
redis.call('ZREM', KEYS[4], ARGV[2])
redis.call('ZREM', KEYS[5], ARGV[2])
redis.call('ZREM', KEYS[6], ARGV[2])
count(KEYS[2], 'd:' .. v[3], -1)
return { 'ok' }
