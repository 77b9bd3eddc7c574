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
-- RETURNS {"ok", now_ms, depth, next_due_ms, parked, claim...}; claim: {task_id, queue, name,
-- RETURNS place, token, epoch, attempt, crashes, created_ms, ready_ms, hop_count, packed, hops}
-- RETURNS | {"moving"}
-- @include now here places counts wake changed ready ended over due promote done suspects
-- @include ticket tickets passes park others claimed
local prefix, parked, due = ARGV[1], KEYS[6], { KEYS[3], KEYS[4], KEYS[5] }
local limit, suspects = tonumber(ARGV[3]), tonumber(ARGV[6])
local KEYS_EACH, ARGV_EACH, MAX_LOOK = 6, 3, 128
local now = now_us()
local now_ms = math.floor(now / 1000)
local c = { prefix = prefix, counts = KEYS[1], leases = KEYS[2], worker_id = ARGV[2], now = now,
  now_ms = now_ms, handlers = set_of(cjson.decode(ARGV[4])), seen = {}, gone = {}, places = {} }
local queues, lists = {}, {}
for priority = 0, 2 do
  for i = 0, (#KEYS - 7) / KEYS_EACH - 1 do
    local queue, k = ARGV[7 + i * ARGV_EACH], 8 + i * KEYS_EACH
    queues[i + 1] = queue
    local list = { key = KEYS[k + priority], hint = KEYS[k + 3], others = KEYS[k + 4],
      suspects = KEYS[k + 5], queue = queue, place = tostring(priority),
      lease_ms = tonumber(ARGV[8 + i * ARGV_EACH]),
      patience_ms = tonumber(ARGV[9 + i * ARGV_EACH]), looked = 0, added = 0 }
    lists[#lists + 1], c.places[queue .. ' ' .. list.place] = list, list
  end
end

-- Look and touch first.
local due_now = find_due(prefix, due, now_ms, tonumber(ARGV[5]))
local odd = due_now and suspect_lists(c, queues, lists)
local back = odd and look_at_due(c, due_now) and find_parked(c, parked, queues, limit + suspects)
if not back then
  return { 'moving' }
end
local passes, odd_passes = in_order(lists, now_ms), in_order(odd, now_ms)
if not look_ahead(c, passes, limit, limit + MAX_LOOK)
  or not look_ahead(c, odd_passes, suspects, suspects + MAX_LOOK) then
  return { 'moving' }
end

-- Then write.
promote(prefix, c.counts, due_now, now_ms, c.gone)
add_promoted(c, due_now)
unpark(c, back)
local reply = { 'ok', int(now_ms), 0, due_now.next_due_ms, 0 }
redeem_all(c, passes, limit, reply)
redeem_all(c, odd_passes, suspects, reply)
book_parked(c, parked)
drop_expiry(KEYS[7], c.gone)
for i, list in ipairs(lists) do
  reply[5] = reply[5] + call_others(c, list)
  pass_on(list, odd[i])
end
reply[3] = depth(c.counts)
return reply
