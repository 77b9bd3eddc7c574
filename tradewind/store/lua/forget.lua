#!lua flags=allow-oom
-- forget: the submit that this entry stands for was cancelled; its key is free again.
--
-- KEYS[1] entry  HASH  see reserve
-- ARGV[1] task_id
-- RETURNS {"ok"} | {"stale"}
local entry = KEYS[1]
if redis.call('HGET', entry, 'id') ~= ARGV[1] then
  return { 'stale' }
end
redis.call('DEL', entry)
return { 'ok' }
