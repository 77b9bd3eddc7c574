#!lua flags=allow-oom
-- claim: take tasks of the caller's queues, high before normal before low but for what has waited
-- too long, each with a lease and a token above every token it ever had. What expired is not taken.
-- Besides it takes suspects, from lists of their own: see lib/places.
--
-- KEYS[1] counts      HASH
-- KEYS[2] leases      ZSET  task_id -> lease_until_ms
-- KEYS[3] due_high    ZSET  task_id -> due_ms
-- KEYS[4] due_normal  ZSET
-- KEYS[5] due_low     ZSET
-- KEYS[6] parked      HASH  queue, "queue name" -> ticket tickets that no claimer could run yet
-- KEYS[7] expiry      ZSET  task_id -> expires_ms, of what waits
-- ARGV[1] prefix     of the partition's keys: records are learnt from tickets
-- ARGV[2] worker_id
-- ARGV[3] limit      int, at most 128
-- ARGV[4] handlers   JSON list of names the caller runs
-- ARGV[5] promote    int, due tasks of each priority to make ready first, at most
-- ARGV[6] suspects   int, at most 128
-- EACH KEYS high      LIST  tickets
-- EACH KEYS normal    LIST
-- EACH KEYS low       LIST
-- EACH KEYS wake      LIST  the queue's hint
-- EACH KEYS others    LIST  the hint for workers with other handlers
-- EACH KEYS suspects  LIST  the hint that suspects wait
-- EACH ARGV queue
-- EACH ARGV lease_ms       int
-- EACH ARGV starvation_ms  int, "" = in strict order
-- RETURNS {"ok", now_ms, depth, next_due_ms, parked, claim...} | {"moving"}; claim: three in a row,
-- RETURNS "task_id queue name place token epoch attempt crashes age_ms ready_ms hop_count", packed,
-- RETURNS hops; age_ms: from the id's time to its acceptance
-- @include read now here places counts wake changed ready ended over due promote done ticket lists
-- @include tickets promoted passes park others looked claimed redeem
local prefix, parked, due = ARGV[1], KEYS[6], { KEYS[3], KEYS[4], KEYS[5] }
local limit, suspects = tonumber(ARGV[3]), tonumber(ARGV[6])
local KEYS_EACH, ARGV_EACH, MAX_LOOK = 6, 3, 128
local now = now_us()
local now_ms = math.floor(now / 1000)
-- Look and touch first. Most claims of a worker that waits find nothing: few looks tell.
local due_now, keys, queues = find_due(prefix, due, now_ms, tonumber(ARGV[5])), { parked }, {}
for i = 0, (#KEYS - 7) / KEYS_EACH - 1 do
  local k, queue = 8 + i * KEYS_EACH, ARGV[7 + i * ARGV_EACH]
  queues[i + 1] = queue
  for rank = 0, 2 do
    keys[#keys + 1], keys[#keys + 2] = KEYS[k + rank], list_at(prefix, queue, 's' .. rank)
  end
end
local found = due_now and redis.pcall('EXISTS', unpack(keys))
if not found or has_left(found) then
  return { 'moving' }
elseif found == 0 and #due_now == 0 then
  return { 'ok', int(now_ms), depth(KEYS[1]), due_now.next_due_ms, 0 }
end
local c = { prefix = prefix, counts = KEYS[1], worker_id = ARGV[2], now = now, now_ms = now_ms,
  now_text = int(now), now_ms_text = int(now_ms), handlers = set_of(cjson.decode(ARGV[4])),
  seen = {}, gone = {}, places = {}, sums = {}, leased = {} }
local lists = lists_of(c, queues, 8, KEYS_EACH, 7, ARGV_EACH)
local odd = suspect_lists(c, lists)
local back = look_at_due(c, due_now) and find_parked(c, parked, queues, limit + suspects)
local passes, odd_passes = in_order(lists, now_ms), in_order(odd, now_ms)
if not back or not look_ahead(c, passes, limit, limit + MAX_LOOK)
  or not look_ahead(c, odd_passes, suspects, suspects + MAX_LOOK) then
  return { 'moving' }
end
-- Then write.
promote(prefix, c.counts, due_now, now_ms, c.gone)
add_promoted(c, due_now)
unpark(c, back)
local reply = { 'ok', c.now_ms_text, 0, due_now.next_due_ms, 0 }
redeem_all(c, passes, lists, limit, reply)
redeem_all(c, odd_passes, odd, suspects, reply)
book(c.counts, c.sums)
if #c.leased > 0 then redis.call('ZADD', KEYS[2], unpack(c.leased)) end
book_parked(c, parked)
drop_expiry(KEYS[7], c.gone)
for i, list in ipairs(lists) do
  reply[5] = reply[5] + call_others(c, list)
  pass_on(list, odd[i])
end
reply[3] = depth(c.counts)
return reply
