#!lua flags=allow-oom
-- claim: take tasks of the caller's queues, high before normal before low but for what has waited
-- too long, each with a lease and a token above every token it ever had. What expired is not taken.
--
-- KEYS[1] counts  HASH
-- KEYS[2] leases  ZSET  task_id -> lease_until_ms
-- KEYS[3] due     ZSET  task_id -> due_ms
-- KEYS[4] parked  HASH  queue, "queue name" -> tickets that no claimer could run yet
-- KEYS[5] expiry  ZSET  task_id -> expires_ms, of what waits
-- ARGV[1] prefix     of the partition's keys: records are learnt from tickets
-- ARGV[2] worker_id
-- ARGV[3] limit      int, at most 128
-- ARGV[4] handlers   JSON list of names the caller runs
-- ARGV[5] promote    int, due tasks to make ready first
-- EACH KEYS high    LIST  tickets
-- EACH KEYS normal  LIST
-- EACH KEYS low     LIST
-- EACH KEYS wake    LIST  the queue's hint
-- EACH KEYS others  LIST  the hint for workers with other handlers
-- EACH ARGV queue
-- EACH ARGV lease_ms       int
-- EACH ARGV starvation_ms  int, "" = in strict order
-- RETURNS {"ok", now_ms, depth, next_due_ms, parked, claim...}; claim: {task_id, queue, name,
-- RETURNS priority, token, epoch, attempt, crashes, created_ms, ready_ms, hop_count, packed, hops}
-- RETURNS | {"moving"}
-- @include now here counts wake changed ready ended over promote tickets passes park others claimed
local prefix, limit, due, parked = ARGV[1], tonumber(ARGV[3]), KEYS[3], KEYS[4]
local KEYS_EACH, ARGV_EACH, MAX_LOOK = 5, 3, 128
local now = now_us()
local now_ms = math.floor(now / 1000)
local c = { prefix = prefix, counts = KEYS[1], leases = KEYS[2], worker_id = ARGV[2], now = now,
  now_ms = now_ms, handlers = {}, seen = {}, gone = {} }
for _, name in ipairs(cjson.decode(ARGV[4])) do
  c.handlers[name] = true
end
local queues, lists, places = {}, {}, {}
for priority = 0, 2 do
  for i = 0, (#KEYS - 5) / KEYS_EACH - 1 do
    local queue, k = ARGV[6 + i * ARGV_EACH], 6 + i * KEYS_EACH
    queues[i + 1] = queue
    local list = { key = KEYS[k + priority], wake = KEYS[k + 3], others = KEYS[k + 4],
      queue = queue, priority = tostring(priority), lease_ms = tonumber(ARGV[7 + i * ARGV_EACH]),
      patience_ms = tonumber(ARGV[8 + i * ARGV_EACH]), looked = 0, added = 0 }
    lists[#lists + 1], places[queue .. ' ' .. list.priority] = list, list
  end
end

-- Look and touch first.
local due_now = find_due(prefix, due, now_ms, tonumber(ARGV[5]))
if not due_now or not look_at_due(c, due_now, places) then
  return { 'moving' }
end
local back, passes = find_parked(c, parked, queues, limit), in_order(lists, now_ms)
if not back or not look_ahead(c, passes, limit, limit + MAX_LOOK) then
  return { 'moving' }
end

-- Then write.
promote(prefix, c.counts, due, due_now, now_ms, c.gone)
add_promoted(c, due_now)
unpark(c, back, places)
local reply, want = { 'ok', int(now_ms), 0, due_now.next_due_ms, 0 }, limit
for _, pass in ipairs(passes) do
  want = redeem(c, pass, want, reply)
end
book_parked(c, parked)
drop_expiry(KEYS[5], c.gone)
for _, list in ipairs(lists) do
  reply[5] = reply[5] + call_others(c, list)
  if list.left > 0 then
    wake(list.wake)
  end
end
reply[3] = depth(c.counts)
return reply
