#!lua flags=allow-oom
-- purge: a dead task goes for good, before its retention has passed. What is left for a while says
-- that its id was taken, or an enqueue that its submitter repeats would store it once more.
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
-- ARGV[4] ttl_ms  int, of what is left: not below the life of an enqueue under way
-- RETURNS {"ok"} | {"stale"}
-- @include read counts changed remains
local record = KEYS[1]
local v = read(record, 's', 'ep', 'q')
if v[1] ~= 'DEAD_LETTER' or v[2] ~= ARGV[3] then
  return { 'stale' }
end
redis.call('HSET', record, 's', 'PURGED')
changed(ARGV[1], record, ARGV[2])
remains(record)
redis.call('PEXPIRE', record, ARGV[4])
redis.call('ZREM', KEYS[3], ARGV[2])
redis.call('ZREM', KEYS[4], ARGV[2])
redis.call('ZREM', KEYS[5], ARGV[2])
redis.call('ZREM', KEYS[6], ARGV[2])
count(KEYS[2], 'd:' .. v[3], -1)
return { 'ok' }
