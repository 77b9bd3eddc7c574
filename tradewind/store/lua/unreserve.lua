#!lua flags=allow-oom
-- unreserve: the submit failed and left nothing, so neither may its reservation stay.
--
-- KEYS[1] entry  HASH  see reserve
-- ARGV[1] task_id
-- ARGV[2] epoch  int
-- RETURNS {"ok"} | {"stale"}
local entry = KEYS[1]
local v = redis.call('HMGET', entry, 'id', 'ep', 'cf', 'fr')
if v[1] ~= ARGV[1] or v[2] ~= ARGV[2] or v[3] or v[4] then
  return { 'stale' }
end
redis.call('DEL', entry)
return { 'ok' }
