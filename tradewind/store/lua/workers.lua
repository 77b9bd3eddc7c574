#!lua flags=no-writes
-- workers: who has sent heartbeats, and this server's now to age them by.
--
-- KEYS[1] workers  HASH  worker_id -> "at_ms report"
-- RETURNS {"ok", now_ms, entries}
-- @include now
local workers = KEYS[1]
return { 'ok', int(math.floor(now_us() / 1000)), redis.call('HGETALL', workers) }
