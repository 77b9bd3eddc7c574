#!lua flags=allow-oom
-- forget: the task that this entry stands for was cancelled or purged, or is gone: its key is free
-- again. What ended is told to late repeats of its own submit: they must not revive it.
--
-- KEYS[1] entry  HASH  see reserve
-- ARGV[1] task_id
-- ARGV[2] state    that it ended in, "" = no region knows the task any more
-- ARGV[3] keep_ms  int, for how long its submit may be repeated
-- RETURNS {"ok"} | {"stale"}
local entry = KEYS[1]
local v = redis.call('HMGET', entry, 'id', 'rq', 'fr')
if v[1] ~= ARGV[1] or v[3] then
  return { 'stale' }
end
if ARGV[2] == '' or (v[2] or '') == '' then
  redis.call('DEL', entry)
else
  redis.call('HSET', entry, 'fr', ARGV[2])
  redis.call('PEXPIRE', entry, ARGV[3])
end
return { 'ok' }
