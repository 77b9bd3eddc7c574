#!lua flags=allow-oom
-- control_accept: hold this version of the control document, unless a higher epoch was promised to
-- another change. Said twice it answers the same.
--
-- KEYS[1] control  HASH  pr (epoch promised), pi (to which change), st (stamp of the document:
--                        "epoch change_id"), dc (the document, JSON); permanent
-- ARGV[1] epoch      int
-- ARGV[2] change_id
-- ARGV[3] document
-- RETURNS {"ok"} | {"barred", epoch}
-- @include ballot
local control = KEYS[1]
local barred = barring(control, ARGV[1], ARGV[2])
if barred then
  return { 'barred', barred }
end
redis.call('HSET', control, 'pr', ARGV[1], 'pi', ARGV[2], 'st', ARGV[1] .. ' ' .. ARGV[2],
  'dc', ARGV[3])
return { 'ok' }
