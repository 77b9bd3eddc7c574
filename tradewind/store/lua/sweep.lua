#!lua flags=allow-oom
-- sweep: upkeep of one partition. Promotes what is due, sets hints anew, purges dead letters past
-- their retention, takes or extends the courier lease, and says what else waits to be done.
--
-- KEYS[1] counts      HASH
-- KEYS[2] leases      ZSET  task_id -> lease_until_ms
-- KEYS[3] due         ZSET  task_id -> due_ms
-- KEYS[4] dead        ZSET  task_id -> died_ms
-- KEYS[5] dead_until  ZSET  task_id -> purged_ms
-- KEYS[6] outbox      ZSET  task_id -> when a courier should look at it, ms
-- KEYS[7] moving      ZSET  task_id -> begun_ms
-- KEYS[8] imports     ZSET  task_id -> imported_ms, unsettled
-- KEYS[9] courier     STRING  worker_id of the partition's courier, with TTL
-- ARGV[1] prefix            of the partition's keys
-- ARGV[2] worker_id
-- ARGV[3] courier_lease_ms  int, "" = the caller is no courier
-- ARGV[4] promote           int, at most
-- ARGV[5] purge             int, at most
-- EACH KEYS high    LIST  tickets
-- EACH KEYS normal  LIST
-- EACH KEYS low     LIST
-- EACH KEYS wake    LIST  the queue's hint
-- RETURNS {"ok", now_ms, depth, promoted, expired_leases, next_due_ms, outbox, moving, imports,
-- RETURNS courier} | {"moving"}
-- @include now here counts wake changed ready promote
local counts, leases, due, dead, dead_until = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local outbox, moving, imports, courier = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local prefix, worker_id = ARGV[1], ARGV[2]
local KEYS_EACH = 4
local now_ms = math.floor(now_us() / 1000)
local until_now = int(now_ms)

local touched = {}
local due_now = find_due(prefix, due, now_ms, tonumber(ARGV[4]), touched)
local past = redis.call('ZRANGEBYSCORE', dead_until, '-inf', until_now, 'LIMIT', 0, ARGV[5])
for _, id in ipairs(past) do
  touched[#touched + 1] = prefix .. 't:' .. id
end
if not due_now or not here(touched) then
  return { 'moving' }
end

promote(prefix, counts, due, due_now, now_ms)
for _, id in ipairs(past) do
  local record = prefix .. 't:' .. id
  count(counts, 'd:' .. (redis.call('HGET', record, 'q') or ''), -1)
  redis.call('DEL', record)
  redis.call('ZREM', dead, id)
  redis.call('ZREM', outbox, id)
  redis.call('ZREM', dead_until, id)
end
for i = 0, (#KEYS - 9) / KEYS_EACH - 1 do
  local k = 10 + i * KEYS_EACH
  if redis.call('EXISTS', KEYS[k], KEYS[k + 1], KEYS[k + 2]) > 0 then
    wake(KEYS[k + 3])
  end
end
local is_courier = 0
if ARGV[3] ~= '' then
  local holder = redis.call('GET', courier)
  if not holder or holder == worker_id then
    redis.call('SET', courier, worker_id, 'PX', ARGV[3])
    is_courier = 1
  end
end
return { 'ok', until_now, depth(counts), #due_now,
  redis.call('ZCOUNT', leases, '-inf', until_now), next_due_ms(due, now_ms),
  redis.call('ZCOUNT', outbox, '-inf', until_now), redis.call('ZCARD', moving),
  redis.call('ZCARD', imports), is_courier }
