#!lua flags=allow-oom
-- probe: can this primary be written, read and deleted from, and how full is it? A bare PING stays
-- green while every write is refused.
--
-- KEYS[1] probe  STRING  gone before the script ends
-- RETURNS {"ok", now_ms, used, most, policy}; used, most: bytes that count for maxmemory, and that;
-- RETURNS most 0: no limit; policy: what happens at the limit, empty if the login may not ask
-- @include now memory_use
local probe = KEYS[1]
local now_ms = int(math.floor(now_us() / 1000))
redis.call('SET', probe, now_ms, 'PX', 10000)
local seen = redis.call('GET', probe)
redis.call('DEL', probe)
local m = memory_use()
return { 'ok', seen, int(m.used), int(m.most), m.policy }
