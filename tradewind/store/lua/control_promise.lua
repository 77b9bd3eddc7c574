#!lua flags=allow-oom
-- control_promise: from now on no version of the control document of a lower epoch is taken here.
-- Tells the one that is held. Said twice it answers the same.
--
-- KEYS[1] control  HASH  see control_accept
-- ARGV[1] epoch      int
-- ARGV[2] change_id
-- ARGV[3] known      the stamp of the document that the caller knows, "" = of none
-- RETURNS {"ok", stamp, document} | {"barred", epoch}; document: "" if the caller knows it
-- @include ballot document
local control = KEYS[1]
local barred = barring(control, ARGV[1], ARGV[2])
if barred then
  return { 'barred', barred }
end
redis.call('HSET', control, 'pr', ARGV[1], 'pi', ARGV[2])
local stamp, document = held_document(control, ARGV[3])
return { 'ok', stamp, document }
