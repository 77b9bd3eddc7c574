#!lua
-- progress: how far an attempt has come, from whoever holds the task. Whoever watches it is told.
-- A full Redis refuses: it is news, not work.
--
-- ARGV[1] prefix  for the watch channel
-- EACH KEYS record  HASH
-- EACH ARGV task_id
-- EACH ARGV token     int
-- EACH ARGV epoch     int
-- EACH ARGV fraction  0 .. 1
-- EACH ARGV note
-- RETURNS {"ok", item...}; item: {"ok", task_id} | {"lost", task_id, state} | {"missing", task_id}
-- @include read changed held
local KEYS_EACH, ARGV_EACH = 1, 5
local reply = { 'ok' }
for i = 0, (#KEYS - 0) / KEYS_EACH - 1 do
  local record, a = KEYS[1 + i * KEYS_EACH], 2 + i * ARGV_EACH
  local item = not_held(record, ARGV[a], ARGV[a + 1], ARGV[a + 2], '')
  if not item then
    redis.call('HSET', record, 'pf', ARGV[a + 3], 'pn', ARGV[a + 4])
    changed(ARGV[1], record, ARGV[a])
    item = { 'ok', ARGV[a] }
  end
  reply[#reply + 1] = item
end
return reply
