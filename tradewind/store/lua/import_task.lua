#!lua
-- import_task: a moved task arrives. Idempotent by id and epoch; the memory of it has no TTL until
-- settle_import, so a repeat after any delay finds it. Attempts start afresh, the token does not.
-- What is not due yet waits SCHEDULED; what expired on its way is stored EXPIRED; a dead letter
-- that left as one stays one.
--
-- KEYS[1] identity  HASH    of this partition
-- KEYS[2] record    HASH
-- KEYS[3] memory    STRING  "in EPOCH", "no EPOCH" or both: what came, and what may not
-- KEYS[4] imports   ZSET    task_id -> imported_ms, unsettled
-- KEYS[5] counts    HASH
-- KEYS[6] ready     LIST
-- KEYS[7] wake      LIST    the hint of that list
-- KEYS[8] expiry    ZSET    task_id -> expires_ms, of what waits
-- KEYS[9] due_high     ZSET  task_id -> due_ms
-- KEYS[10] due_normal  ZSET
-- KEYS[11] due_low     ZSET
-- KEYS[12] dead        ZSET
-- KEYS[13] dead_until  ZSET
-- KEYS[14] hooks       ZSET
-- ARGV[1] deployment    must be this one's
-- ARGV[2] region        must be this one
-- ARGV[3] prefix
-- ARGV[4] task_id
-- ARGV[5] epoch         int, of the move
-- ARGV[6] not_after_ms  int, this server's clock
-- ARGV[7] queue
-- ARGV[8] name
-- ARGV[9] priority
-- ARGV[10] packed
-- ARGV[11] fence        groups, comma-separated
-- ARGV[12] token        int, the last one given out
-- ARGV[13] hops         StoredHops
-- ARGV[14] hop_count    int
-- ARGV[15] max_crashes  int, "" = 3
-- ARGV[16] done_key
-- ARGV[17] age_ms       int, from the time that its id tells to its acceptance
-- ARGV[18] expires_ms   int, "" = never
-- ARGV[19] keep_ms      int, of its record once expired
-- ARGV[20] crashes      int, "" = none
-- ARGV[21] delay_ms     int, until it is due; 0: it is
-- ARGV[22] rests        of a dead letter that stays one: see lib/rest; "" = it is to run
-- RETURNS {"imported"} | {"known"} | {"refused"} | {"late"} | {"foreign", deployment, region}
-- @include read now places counts wake changed ready ended due delay over memory arrival announce
-- @include bury rest
local identity, record, memory, imports, counts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local prefix, task_id, epoch = ARGV[3], ARGV[4], tonumber(ARGV[5])
local item = not_coming(identity, memory, record, { ARGV[1], ARGV[2] }, epoch)
if item then
  return item
end
local now_ms = math.floor(now_us() / 1000)
if now_ms > tonumber(ARGV[6]) then
  return { 'late' }
end
redis.call('HDEL', record, 'mt')
redis.call('HSET', record, 'p', ARGV[10], 'q', ARGV[7], 'n', ARGV[8], 'pr', ARGV[9],
  'ep', ARGV[5], 'tk', ARGV[12], 'hp', ARGV[13], 'hc', ARGV[14], 'c', ARGV[17])
redis.call('HSETNX', record, 'rv', 0) -- what follows is its first revision, unless it was here
redis.call('PERSIST', record)
set_given(record, { 'fn', ARGV[11], 'mc', ARGV[15], 'dd', ARGV[16], 'cr', ARGV[20],
  'ex', ARGV[18], 'xk', ARGV[18] ~= '' and ARGV[19] or '' })
redis.call('SET', memory, 'in ' .. ARGV[5])
redis.call('ZADD', imports, int(now_ms), task_id)
local task = { record = record, id = task_id, queue = ARGV[7] }
if ARGV[22] ~= '' then
  rest({ counts = counts, dead = KEYS[12], dead_until = KEYS[13], hooks = KEYS[14] }, prefix, task,
    now_ms, ARGV[22])
  return { 'imported' }
end
if ARGV[18] ~= '' and is_over(ARGV[18], now_ms) then
  ended(prefix, record, task_id, 'EXPIRED', now_ms, ARGV[19])
  return { 'imported' }
end
may_expire(KEYS[8], record, task_id)
task.priority, task.crashes = ARGV[9], ARGV[20] ~= '' and ARGV[20]
line_in(prefix, counts, { KEYS[9], KEYS[10], KEYS[11] }, task, now_ms, tonumber(ARGV[21]), KEYS[7])
return { 'imported' }
