#!lua flags=allow-oom
-- reconcile: make every index say what these records say, and nothing else: what crashed half-way
-- somewhere, or was damaged, is found again. A running task without a lease gets one that has
-- ended; a ready one without a ticket gets a new one at a new revision. A record that scripts
-- cannot go on with becomes a dead letter: see lib/whole.
--
-- KEYS[1] counts       HASH
-- KEYS[2] leases       ZSET  task_id -> lease_until_ms
-- KEYS[3] due_high     ZSET  task_id -> due_ms
-- KEYS[4] due_normal   ZSET
-- KEYS[5] due_low      ZSET
-- KEYS[6] expiry       ZSET  task_id -> expires_ms, of what waits
-- KEYS[7] dead         ZSET  task_id -> died_ms
-- KEYS[8] dead_until   ZSET  task_id -> purged_ms
-- KEYS[9] outbox       ZSET  task_id -> when a courier should look at it, ms
-- KEYS[10] hooks       ZSET  task_id -> when on_dead is to hear of it, ms
-- KEYS[11] moving      ZSET  task_id -> begun_ms
-- KEYS[12] imports     ZSET  task_id -> imported_ms, unsettled
-- ARGV[1] prefix  of the partition's keys: lists are learnt from records
-- ARGV[2] kept    JSON object: queue -> retention_ms of dead tasks, "" = the others
-- ARGV[3] look    int, tickets to read at most
-- ARGV[4] hooked  JSON object: queue -> whether it has an on_dead; see lib/announce
-- EACH KEYS record  HASH
-- EACH KEYS memory  STRING  see import_task
-- EACH ARGV task_id
-- RETURNS {"ok", queues, item...}; queues: of those that are ready; item: {task_id, kind} for each
-- RETURNS repair; kind "unsearched" is none: there are too many tickets to look for its own
-- RETURNS | {"moving"}
-- @include read now here places counts wake changed ready ticket lost announce whole
-- @include order
local KEYS_EACH, ARGV_EACH = 2, 1
local now_ms = int(math.floor(now_us() / 1000))
local c = { prefix = ARGV[1], look = tonumber(ARGV[3]), lists = {}, gone = {}, unlisted = {},
  now_ms = now_ms, kept = cjson.decode(ARGV[2]), leases = KEYS[2],
  due = { KEYS[3], KEYS[4], KEYS[5] }, expiry = KEYS[6], dead = KEYS[7], dead_until = KEYS[8],
  outbox = KEYS[9], hooks = KEYS[10], moving = KEYS[11], imports = KEYS[12] }
local found, queues, reply = {}, {}, { 'ok', {} }
for i = 0, (#KEYS - 12) / KEYS_EACH - 1 do
  local record, memory = KEYS[13 + i * KEYS_EACH], KEYS[14 + i * KEYS_EACH]
  local v = read(record, 's', 'q', 'pr', 'cr', 'n', 'rv', 'ex', 'nx', 'fa', 'se')
  local t = { id = ARGV[5 + i * ARGV_EACH], record = record, state = v[1], queue = v[2],
    priority = v[3], crashes = v[4], name = v[5] or '', revision = v[6], expires_ms = v[7],
    due_ms = v[8], died_ms = v[9] or now_ms, settled = v[10] }
  t.damage = damage_of(record)
  if t.state == 'PENDING' and not t.damage and not look_for_ticket(c, t) then
    return { 'moving' }
  end
  queues[t.queue or ''] = t.state == 'PENDING' and not t.damage or queues[t.queue or '']
  local came = string.find(redis.call('GET', memory) or '', 'in ', 1, true)
  t.unsettled = came and redis.call('PTTL', memory) == -1
  found[#found + 1] = t
end

for _, t in ipairs(found) do
  if t.damage then
    give_up(c.prefix, KEYS[1], t, tonumber(now_ms))
    announce(c.hooks, ARGV[4], t.id, t.queue, tonumber(now_ms))
    reply[#reply + 1] = { t.id, 'record' }
  end
  if t.ticket == 'lost' then
    count_ready(KEYS[1], t.queue, t.place, -1) -- make_ready counts it anew
    make_ready(c.prefix, KEYS[1], t.record, t.id, t.queue, t.place, tonumber(now_ms), false)
    wake(t.hint)
  end
  if t.ticket == 'lost' or t.ticket == 'unsearched' then
    reply[#reply + 1] = { t.id, t.ticket == 'lost' and 'ticket' or 'unsearched' }
  end
  put_in_order(c, t, reply)
end
list_parked(c, reply)
leave(c)
for queue in pairs(queues) do
  table.insert(reply[2], queue)
end
return reply
