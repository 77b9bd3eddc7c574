#!lua flags=no-writes
-- workers: who has sent heartbeats, and this server's now to age them by; and the control document.
--
-- KEYS[1] workers  HASH  worker_id -> "at_ms report"
-- KEYS[2] control  HASH  see control_accept
-- ARGV[1] known    the stamp of the document that the reader knows, "" = of none
-- RETURNS {"ok", now_ms, entries, stamp, document}; document: "" if the reader knows it, or there
-- RETURNS is none
-- @include now document
local workers, control = KEYS[1], KEYS[2]
local stamp, document = held_document(control, ARGV[1])
local entries = redis.call('HGETALL', workers)
return { 'ok', int(math.floor(now_us() / 1000)), entries, stamp, document }
