#!lua flags=allow-oom
-- heartbeat: a worker lives, or (without a report) has gone. Forgets workers long silent. Tells of
-- the control document, whose key it makes: while a slot moves, an absent one would stop the call.
--
-- KEYS[1] workers  HASH  worker_id -> "at_ms report"; with TTL
-- KEYS[2] control  HASH  see control_accept
-- ARGV[1] worker_id
-- ARGV[2] report  JSON, "" = gone
-- ARGV[3] ttl_ms  int, of the whole; a tenth of it forgets one worker
-- ARGV[4] known   the stamp of the control document that the caller knows, "" = of none
-- RETURNS {"ok", now_ms, stamp, document}; document: "" if the caller knows it, or there is none
-- @include now document
local workers, control = KEYS[1], KEYS[2]
local now_ms = math.floor(now_us() / 1000)
local stamp, document = held_document(control, ARGV[4])
redis.call('HSETNX', control, 'pr', 0)
local gone = { ARGV[2] == '' and ARGV[1] or '' }
if ARGV[2] ~= '' then
  redis.call('HSET', workers, ARGV[1], int(now_ms) .. ' ' .. ARGV[2])
end
redis.call('PEXPIRE', workers, ARGV[3])
local cursor = redis.call('HSCAN', workers, 0, 'COUNT', 16)
for i = 1, #cursor[2], 2 do
  local at_ms = tonumber(string.match(cursor[2][i + 1], '^%d+') or 0) -- no time: long ago
  if math.abs(now_ms - at_ms) > tonumber(ARGV[3]) / 10 then
    gone[#gone + 1] = cursor[2][i]
  end
end
redis.call('HDEL', workers, unpack(gone)) -- last, and at once: it may empty the key
return { 'ok', int(now_ms), stamp, document }
