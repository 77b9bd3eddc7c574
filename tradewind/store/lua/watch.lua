#!lua flags=allow-oom
-- watch: from now on changes of this task are published; answers the task as it is.
--
-- KEYS[1] record  HASH
-- RETURNS {"ok", fields} | {"missing"}
local record = KEYS[1]
if redis.call('EXISTS', record) == 0 then
  return { 'missing' }
end
redis.call('HSETNX', record, 'wt', '1')
return { 'ok', redis.call('HGETALL', record) }
