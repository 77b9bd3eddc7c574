#!lua flags=allow-oom
-- claim: take tasks of the caller's queues, high before normal before low, each with a lease and
-- a token above every token it ever had.
--
-- KEYS[1] counts  HASH
-- KEYS[2] leases  ZSET  task_id -> lease_until_ms
-- KEYS[3] due     ZSET  task_id -> due_ms
-- KEYS[4] parked  HASH  "queue name" -> tickets that no claimer could run yet
-- ARGV[1] prefix     of the partition's keys: records are learnt from tickets
-- ARGV[2] worker_id
-- ARGV[3] limit      int, at most 128
-- ARGV[4] handlers   JSON list of names the caller runs
-- ARGV[5] promote    int, due tasks to make ready first
-- EACH KEYS high    LIST  tickets
-- EACH KEYS normal  LIST
-- EACH KEYS low     LIST
-- EACH KEYS wake    LIST  the queue's hint
-- EACH ARGV queue
-- EACH ARGV lease_ms  int
-- RETURNS {"ok", now_ms, depth, next_due_ms, parked, claim...}; claim: {task_id, queue, name,
-- RETURNS priority, token, epoch, attempt, crashes, created_ms, ready_ms, hop_count, packed, hops}
-- RETURNS | {"moving"}
-- @include now here counts wake changed ready promote tickets park claimed
local counts, leases, due, parked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, worker_id, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local KEYS_EACH, ARGV_EACH = 4, 2
local now = now_us()
local now_ms = math.floor(now / 1000)

local handlers, queues, lists = {}, {}, {}
for _, name in ipairs(cjson.decode(ARGV[4])) do
  handlers[name] = true
end
local queue_count = (#KEYS - 4) / KEYS_EACH
for priority = 0, 2 do
  for i = 0, queue_count - 1 do
    local queue = ARGV[6 + i * ARGV_EACH]
    queues[queue] = true
    lists[#lists + 1] = { key = KEYS[5 + i * KEYS_EACH + priority], queue = queue,
      lease_ms = tonumber(ARGV[7 + i * ARGV_EACH]), priority = tostring(priority) }
  end
end

-- Look and touch first.
local touched = {}
local due_now = find_due(prefix, due, now_ms, tonumber(ARGV[5]), touched)
local unparkable, others = {}, 0
if due_now and redis.call('EXISTS', parked) == 1 then
  unparkable, others = find_parked(prefix, queues, handlers)
end
if not due_now or not unparkable or not here(touched) then
  return { 'moving' }
end
for _, list in ipairs(lists) do
  for _, ticket in ipairs(redis.call('LRANGE', list.key, 0, limit - 1)) do
    local t = look(prefix, ticket, handlers)
    if not t then
      return { 'moving' }
    end
    if t.good and not t.runnable and not here({ parked_key(prefix, list.queue, t.name) }) then
      return { 'moving' }
    end
  end
end

-- Then write.
promote(prefix, counts, due, due_now, now_ms)
unpark(prefix, unparkable, limit)
local reply = { 'ok', int(now_ms), 0, 0, 0 }
local want = limit
for _, list in ipairs(lists) do
  local tickets = want > 0 and redis.call('LRANGE', list.key, 0, limit - 1) or {}
  local used = 0
  for _, ticket in ipairs(tickets) do
    if want == 0 then
      break
    end
    local t = look(prefix, ticket, handlers)
    used = used + 1
    if t.first and t.good then
      copy_done(prefix, counts, t, list, now_ms)
    elseif t.runnable then
      want = want - 1
      reply[#reply + 1] = take(prefix, counts, leases, t, list, worker_id, now, now_ms)
    elseif t.good then
      park(prefix, list.queue, t)
      others = others + 1
    end
  end
  if used > 0 then
    redis.call('LPOP', list.key, used)
  end
end
for i = 1, #lists do
  if redis.call('EXISTS', lists[i].key) == 1 then
    wake(prefix .. 'wake:' .. lists[i].queue)
  end
end
reply[3] = depth(counts)
reply[4] = next_due_ms(due, now_ms)
reply[5] = others
return reply
