#!lua flags=allow-oom
-- seal: a mark behind all that was written before, for WAIT and WAITAOF to wait for.
--
-- KEYS[1] mark  STRING  TTL 10 s; that of a probe
-- RETURNS {"ok"}
-- @include now
local mark = KEYS[1]
redis.call('SET', mark, int(math.floor(now_us() / 1000)), 'PX', 10000)
return { 'ok' }
