#!lua flags=allow-oom
-- confirm: the reserved task is stored.
--
-- KEYS[1] entry  HASH  see reserve
-- ARGV[1] task_id
-- ARGV[2] epoch  int
-- RETURNS {"ok"} | {"stale"}
local entry = KEYS[1]
local v = redis.call('HMGET', entry, 'id', 'ep', 'fr')
if v[1] ~= ARGV[1] or v[2] ~= ARGV[2] or v[3] then
  return { 'stale' }
end
redis.call('HSET', entry, 'cf', '1')
redis.call('HDEL', entry, 'le')
return { 'ok' }
