#!lua flags=allow-oom
-- noticed: how a notice ended: its on_dead has heard of this death or never will, or it is to be
-- tried again. The token says which death, since a task may be redriven and die once more.
--
-- KEYS[1] record  HASH
-- KEYS[2] hooks   ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] task_id
-- ARGV[2] token           int
-- ARGV[3] retry_after_ms  int, "" = over
-- RETURNS {"ok"} | {"stale"}
-- @include now
local record, hooks = KEYS[1], KEYS[2]
local v = redis.call('HMGET', record, 's', 'tk')
local is_due = redis.call('ZSCORE', hooks, ARGV[1])
if v[1] ~= 'DEAD_LETTER' or (v[2] or '0') ~= ARGV[2] or not is_due then
  return { 'stale' }
end
if ARGV[3] == '' then
  redis.call('HDEL', record, 'ht')
  redis.call('ZREM', hooks, ARGV[1])
else
  redis.call('HINCRBY', record, 'ht', 1)
  redis.call('ZADD', hooks, int(math.floor(now_us() / 1000) + tonumber(ARGV[3])), ARGV[1])
end
return { 'ok' }
