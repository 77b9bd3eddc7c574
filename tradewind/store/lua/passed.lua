#!lua flags=allow-oom
-- passed: a courier has looked at all that waits in a partition and is to leave; what stays, by
-- reason. What an earlier evacuation has counted goes.
--
-- KEYS[1] evacuated  HASH  at -> order_ms, moved -> tasks, k:REASON -> tasks that stay
-- ARGV[1] order_ms  int, which evacuation
-- ARGV[2] ttl_ms    int
-- ARGV[3] kept      JSON list: reason, tasks, reason, tasks, ...
-- RETURNS {"ok"}
-- @include evacuated
local evacuated = KEYS[1]
of_order(evacuated, ARGV[1])
for _, field in ipairs(redis.call('HKEYS', evacuated)) do
  if string.sub(field, 1, 2) == 'k:' then
    redis.call('HDEL', evacuated, field)
  end
end
local kept = cjson.decode(ARGV[3])
for i = 1, #kept, 2 do
  redis.call('HSET', evacuated, 'k:' .. kept[i], kept[i + 1])
end
redis.call('PEXPIRE', evacuated, ARGV[2])
return { 'ok' }
