#!lua flags=allow-oom
-- sweep: upkeep of one partition. Promotes what is due, ends what has expired, sets hints anew,
-- drops parked tickets of tasks that have ended, purges dead letters past their retention, takes
-- or extends the courier lease, and says what else waits to be done.
--
-- KEYS[1] counts      HASH
-- KEYS[2] leases      ZSET  task_id -> lease_until_ms
-- KEYS[3] due_high    ZSET  task_id -> due_ms
-- KEYS[4] due_normal  ZSET
-- KEYS[5] due_low     ZSET
-- KEYS[6] dead        ZSET  task_id -> died_ms
-- KEYS[7] dead_until  ZSET  task_id -> purged_ms
-- KEYS[8] outbox      ZSET  task_id -> when a courier should look at it, ms
-- KEYS[9] moving      ZSET  task_id -> begun_ms
-- KEYS[10] imports    ZSET  task_id -> imported_ms, unsettled
-- KEYS[11] courier    STRING  worker_id of the partition's courier, with TTL
-- KEYS[12] parked     HASH    queue, "queue name" -> tickets that no claimer could run yet
-- KEYS[13] expiry     ZSET    task_id -> expires_ms, of what waits
-- KEYS[14] hooks      ZSET    task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix            of the partition's keys
-- ARGV[2] worker_id
-- ARGV[3] courier_lease_ms  int, "" = the caller is no courier
-- ARGV[4] promote           int, of each priority, at most
-- ARGV[5] purge             int, at most
-- ARGV[6] expire            int, at most
-- EACH KEYS high      LIST  tickets
-- EACH KEYS normal    LIST
-- EACH KEYS low       LIST
-- EACH KEYS wake      LIST  the queue's hint
-- EACH KEYS others    LIST  the hint for workers with other handlers
-- EACH KEYS suspects  LIST  the hint that suspects wait
-- EACH ARGV queue
-- RETURNS {"ok", now_ms, depth, promoted, expired_leases, next_due_ms, outbox, moving, imports,
-- RETURNS courier, expired, hooks, dead} | {"moving"}
-- @include read now here places counts wake changed ready ended due waiting over promote expire
-- @include stale suspects purge carry
local counts, leases, due = KEYS[1], KEYS[2], { KEYS[3], KEYS[4], KEYS[5] }
local dead, dead_until, outbox = KEYS[6], KEYS[7], KEYS[8]
local courier, parked, expiry, hooks = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local prefix, worker_id = ARGV[1], ARGV[2]
local KEYS_EACH, ARGV_EACH = 6, 1
local now_ms = math.floor(now_us() / 1000)
local until_now = int(now_ms)

-- Look and touch first; the numbers, too, since what follows may empty a key.
local due_now = find_due(prefix, due, now_ms, tonumber(ARGV[4]))
local past = due_now and find_past(prefix, dead_until, outbox, hooks, now_ms, ARGV[5])
local over = past and find_over(prefix, expiry, now_ms, ARGV[6])
local stale = over and find_stale(prefix, parked)
local odd = stale and suspects_among(prefix, ARGV, 7)
if not odd then
  return { 'moving' }
end
local outbox_due = redis.call('ZCOUNT', outbox, '-inf', until_now) - past.due
local hooks_due = redis.call('ZCOUNT', hooks, '-inf', until_now) - past.hooks
local expired = redis.call('ZCOUNT', leases, '-inf', until_now)
local dead_left = redis.call('ZCARD', dead) - #past.ids
local gone = {}
promote(prefix, counts, due_now, now_ms, gone)
purge(counts, dead, dead_until, outbox, hooks, past)
for i = 0, (#KEYS - 14) / KEYS_EACH - 1 do
  local k, queue = 15 + i * KEYS_EACH, ARGV[7 + i * ARGV_EACH]
  if redis.call('EXISTS', KEYS[k], KEYS[k + 1], KEYS[k + 2]) > 0 then
    wake(KEYS[k + 3])
  end
  if redis.call('HEXISTS', parked, queue) == 1 then
    wake(KEYS[k + 4])
  end
  if odd[queue] then
    wake(KEYS[k + 5])
  end
end
local is_courier = carry(courier, worker_id, ARGV[3])
-- What may empty a key that was looked at above comes last.
drop_stale(parked, stale)
local expired_now = expire(prefix, counts, due, over, now_ms, gone)
drop_expiry(expiry, gone)
return { 'ok', until_now, depth(counts), #due_now, expired, due_now.next_due_ms, outbox_due,
  redis.call('ZCARD', KEYS[9]), redis.call('ZCARD', KEYS[10]), is_courier, expired_now,
  hooks_due, dead_left }
