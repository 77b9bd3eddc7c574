#!lua
-- redrive: a dead task is ready again: attempts, crashes and moves are counted afresh, its route
-- and token are kept. Past its expiry it will not start all the same.
--
-- KEYS[1] record      HASH
-- KEYS[2] counts      HASH
-- KEYS[3] dead        ZSET
-- KEYS[4] dead_until  ZSET
-- KEYS[5] outbox      ZSET
-- KEYS[6] expiry      ZSET  task_id -> expires_ms, of what waits
-- KEYS[7] hooks       ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix  of the partition's keys: list and hint are learnt from the record
-- ARGV[2] task_id
-- ARGV[3] epoch   int, as the caller read it
-- RETURNS {"ok"} | {"stale"} | {"moving"}
-- @include read now here counts wake changed ready over
local record, counts, prefix, task_id = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local v = read(record, 's', 'ep', 'q', 'pr')
if v[1] ~= 'DEAD_LETTER' or v[2] ~= ARGV[3] then
  return { 'stale' }
end
local hint = prefix .. 'wake:' .. v[3]
if not here({ prefix .. 'q:' .. v[3] .. ':' .. v[4], hint }) then
  return { 'moving' }
end
redis.call('ZREM', KEYS[3], task_id)
redis.call('ZREM', KEYS[4], task_id)
redis.call('ZREM', KEYS[5], task_id)
redis.call('ZREM', KEYS[7], task_id)
redis.call('HDEL', record, 'at', 'cr', 'hc', 'se', 'fo', 'dk', 'fa', 'pf', 'pn', 'ht')
count(counts, 'd:' .. v[3], -1)
make_ready(prefix, counts, record, task_id, v[3], v[4], math.floor(now_us() / 1000), false)
may_expire(KEYS[6], record, task_id)
wake(hint)
return { 'ok' }
