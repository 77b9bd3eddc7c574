#!lua flags=allow-oom
-- audit: keep a record of what somebody did. The oldest go, some more of them than have to.
--
-- KEYS[1] audit  STREAM  r (the record, JSON); permanent
-- ARGV[1] record
-- ARGV[2] most    int, records that are kept
-- RETURNS {"ok", id}
local audit = KEYS[1]
return { 'ok', redis.call('XADD', audit, 'MAXLEN', '~', ARGV[2], '*', 'r', ARGV[1]) }
