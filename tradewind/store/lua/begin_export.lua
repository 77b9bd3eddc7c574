#!lua flags=allow-oom
-- begin_export: from now on only `target` may get this task. Epoch + 1 and the target are written
-- down before anything leaves, or a retry after a lost answer could pick a second region.
-- Repeated for the same target, the answer is the same. A settled task goes nowhere.
--
-- KEYS[1] record      HASH
-- KEYS[2] counts      HASH
-- KEYS[3] dead        ZSET
-- KEYS[4] dead_until  ZSET
-- KEYS[5] outbox      ZSET
-- KEYS[6] moving      ZSET  task_id -> begun_ms
-- ARGV[1] prefix   for the watch channel
-- ARGV[2] task_id
-- ARGV[3] epoch    int, as the caller read it
-- ARGV[4] target   region
-- ARGV[5] groups   of the caller's own region, comma-separated: it must be inside the fence
-- RETURNS {"ok", fields} | {"fenced"} | {"stale", state, epoch, target}
-- @include read now counts changed
local record, counts, dead, dead_until = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local outbox, moving = KEYS[5], KEYS[6]
local task_id, target = ARGV[2], ARGV[4]
local v = read(record, 's', 'ep', 'mt', 'fn', 'q', 'se')
if v[4] and v[4] ~= '' then
  local inside = false
  for group in string.gmatch(ARGV[5], '[^,]+') do
    inside = inside or string.find(',' .. v[4] .. ',', ',' .. group .. ',', 1, true) ~= nil
  end
  if not inside then
    return { 'fenced' }
  end
end
if v[1] == 'MOVING' and v[3] == target and tonumber(v[2]) == tonumber(ARGV[3]) + 1 then
  return { 'ok', redis.call('HGETALL', record) }
end
if v[1] ~= 'DEAD_LETTER' or v[2] ~= ARGV[3] or v[6] then
  return { 'stale', v[1] or '', v[2] or '0', v[3] or '' }
end
local until_ms = redis.call('ZSCORE', dead_until, task_id) or '0'
redis.call('HSET', record, 's', 'MOVING', 'mt', target, 'ep', v[2] + 1, 'ms', v[1],
  'du', until_ms) -- abort_export restores both
redis.call('ZREM', dead, task_id)
redis.call('ZREM', dead_until, task_id)
redis.call('ZREM', outbox, task_id)
redis.call('ZADD', moving, int(math.floor(now_us() / 1000)), task_id)
count(counts, 'd:' .. v[5], -1)
count(counts, 'm:' .. v[5], 1)
changed(ARGV[1], record, task_id)
return { 'ok', redis.call('HGETALL', record) }
