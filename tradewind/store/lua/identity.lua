#!lua flags=allow-oom
-- identity: who this Redis says it is; written once, by whoever comes first.
--
-- KEYS[1] identity  HASH  deployment, region, partitions, format, incarnation; permanent
-- ARGV[1] deployment
-- ARGV[2] region
-- ARGV[3] partitions   int
-- ARGV[4] format       int
-- ARGV[5] incarnation  text, used only if there is none yet
-- RETURNS {"ok", deployment, region, partitions, format, incarnation, now_ms}
-- @include now
local identity = KEYS[1]
if redis.call('EXISTS', identity) == 0 then
  redis.call('HSET', identity, 'deployment', ARGV[1], 'region', ARGV[2], 'partitions', ARGV[3],
    'format', ARGV[4], 'incarnation', ARGV[5])
end
local v = redis.call('HMGET', identity, 'deployment', 'region', 'partitions', 'format',
  'incarnation')
return { 'ok', v[1] or '', v[2] or '', v[3] or '', v[4] or '', v[5] or '',
  int(math.floor(now_us() / 1000)) }
