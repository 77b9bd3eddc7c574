#!lua flags=allow-oom
-- refuse_import: make sure that this import can no longer happen, or say that it has.
--
-- KEYS[1] memory  STRING  see import_task
-- KEYS[2] record  HASH
-- ARGV[1] epoch   int
-- ARGV[2] ttl_ms  int, far above the life of an import under way
-- RETURNS {"imported"} | {"fenced"}
-- @include read memory
local memory, record = KEYS[1], KEYS[2]
local came, refused = remembered(memory)
if came >= tonumber(ARGV[1]) then
  return { 'imported' }
end
local v = read(record, 's', 'ep')
if v[1] and v[1] ~= 'REFUSED' and tonumber(v[2]) >= tonumber(ARGV[1]) then
  return { 'imported' }
end
local earlier = came >= 0 and 'in ' .. came .. ' ' or ''
local unsettled = came >= 0 and redis.call('PTTL', memory) < 0
redis.call('SET', memory, earlier .. 'no ' .. math.max(refused, tonumber(ARGV[1])))
if not unsettled then
  redis.call('PEXPIRE', memory, ARGV[2])
end
return { 'fenced' }
