#!lua flags=allow-oom
-- settle_import: the source has let go, so the memory of this import may expire.
--
-- KEYS[1] memory   STRING  see import_task
-- KEYS[2] imports  ZSET
-- ARGV[1] task_id
-- ARGV[2] epoch   int
-- ARGV[3] ttl_ms  int
-- RETURNS {"ok"} | {"stale"}
-- @include memory
local memory, imports = KEYS[1], KEYS[2]
if remembered(memory) ~= tonumber(ARGV[2]) then
  return { 'stale' }
end
redis.call('PEXPIRE', memory, ARGV[3])
redis.call('ZREM', imports, ARGV[1])
return { 'ok' }
