#!lua flags=allow-oom
-- sweep: upkeep of one partition. Promotes what is due, ends what has expired, sets hints anew,
-- drops parked tickets of tasks that have ended, purges dead letters past their retention, takes
-- or extends the courier lease, and says what else waits to be done.
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
-- KEYS[10] parked     HASH    queue, "queue name" -> tickets that no claimer could run yet
-- KEYS[11] expiry     ZSET    task_id -> expires_ms, of what waits
-- ARGV[1] prefix            of the partition's keys
-- ARGV[2] worker_id
-- ARGV[3] courier_lease_ms  int, "" = the caller is no courier
-- ARGV[4] promote           int, at most
-- ARGV[5] purge             int, at most
-- ARGV[6] expire            int, at most
-- EACH KEYS high    LIST  tickets
-- EACH KEYS normal  LIST
-- EACH KEYS low     LIST
-- EACH KEYS wake    LIST  the queue's hint
-- EACH KEYS others  LIST  the hint for workers with other handlers
-- EACH ARGV queue
-- RETURNS {"ok", now_ms, depth, promoted, expired_leases, next_due_ms, outbox, moving, imports,
-- RETURNS courier, expired} | {"moving"}
-- @include now here counts wake changed ready ended waiting over promote expire stale purge
local counts, leases, due, dead, dead_until = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local outbox, courier, parked, expiry = KEYS[6], KEYS[9], KEYS[10], KEYS[11]
local prefix, worker_id = ARGV[1], ARGV[2]
local KEYS_EACH, ARGV_EACH = 5, 1
local now_ms = math.floor(now_us() / 1000)
local until_now = int(now_ms)

-- Look and touch first; the numbers, too, since what follows may empty a key.
local due_now = find_due(prefix, due, now_ms, tonumber(ARGV[4]))
local past = due_now and find_past(prefix, dead_until, outbox, now_ms, ARGV[5])
local over = past and find_over(prefix, expiry, now_ms, ARGV[6])
local stale = over and find_stale(prefix, parked)
if not stale then
  return { 'moving' }
end
local outbox_due = redis.call('ZCOUNT', outbox, '-inf', until_now) - past.due
local expired = redis.call('ZCOUNT', leases, '-inf', until_now)

local gone = {}
promote(prefix, counts, due, due_now, now_ms, gone)
purge(counts, dead, dead_until, outbox, past)
for i = 0, (#KEYS - 11) / KEYS_EACH - 1 do
  local k, queue = 12 + i * KEYS_EACH, ARGV[7 + i * ARGV_EACH]
  if redis.call('EXISTS', KEYS[k], KEYS[k + 1], KEYS[k + 2]) > 0 then
    wake(KEYS[k + 3])
  end
  if redis.call('HEXISTS', parked, queue) == 1 then
    wake(KEYS[k + 4])
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
-- What may empty a key that was looked at above comes last.
drop_stale(parked, stale)
local expired_now = expire(prefix, counts, due, over, now_ms, gone)
drop_expiry(expiry, gone)
return { 'ok', until_now, depth(counts), #due_now, expired, due_now.next_due_ms, outbox_due,
  redis.call('ZCARD', KEYS[7]), redis.call('ZCARD', KEYS[8]), is_courier, expired_now }
