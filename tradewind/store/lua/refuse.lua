#!lua flags=allow-oom
-- refuse: a tombstone, so that this id cannot be stored here at this epoch or a lower one.
-- Without it a late enqueue could still arrive after its submitter went to another region.
--
-- KEYS[1] record  HASH  the task
-- ARGV[1] epoch   int
-- ARGV[2] ttl_ms  int  far above the life of an enqueue under way
-- RETURNS {"refused"} | {"known", state}
-- @include read
local record = KEYS[1]
local v = read(record, 's', 'ep')
if v[1] and v[1] ~= 'REFUSED' then
  return { 'known', v[1] }
end
if not v[1] or tonumber(v[2]) < tonumber(ARGV[1]) then
  redis.call('HSET', record, 's', 'REFUSED', 'ep', ARGV[1])
end
redis.call('PEXPIRE', record, ARGV[2])
return { 'refused' }
