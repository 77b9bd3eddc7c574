#!lua
-- probe: can this primary be written, read and deleted from? A bare PING stays green while every
-- write is refused.
--
-- KEYS[1] probe  STRING  gone before the script ends
-- RETURNS {"ok", now_ms}
-- @include now
local probe = KEYS[1]
local now_ms = int(math.floor(now_us() / 1000))
redis.call('SET', probe, now_ms, 'PX', 10000)
local seen = redis.call('GET', probe)
redis.call('DEL', probe)
return { 'ok', seen }
