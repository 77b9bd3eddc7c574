#!lua flags=allow-oom
-- refuse_import: make sure that this import can no longer happen, or say that it has.
--
-- KEYS[1] memory  STRING  see import_task
-- KEYS[2] record  HASH
-- ARGV[1] epoch   int
-- ARGV[2] ttl_ms  int, far above the life of an import under way
-- RETURNS {"imported"} | {"fenced"}
local memory, record = KEYS[1], KEYS[2]
local said, said_epoch = string.match(redis.call('GET', memory) or '', '^(%l+) (%d+)$')
if said == 'in' and tonumber(said_epoch) >= tonumber(ARGV[1]) then
  return { 'imported' }
end
local v = redis.call('HMGET', record, 'st', 'ep')
if v[1] and v[1] ~= 'REFUSED' and tonumber(v[2]) >= tonumber(ARGV[1]) then
  return { 'imported' }
end
redis.call('SET', memory, 'no ' .. ARGV[1], 'PX', ARGV[2])
return { 'fenced' }
