#!lua flags=allow-oom
-- recount: the counts of a small partition, by its indexes and lists, in one look. One with more
-- than `most` tasks and tickets is left alone: reading it whole would hold up its node.
--
-- KEYS[1] counts      HASH  tasks by state and queue
-- KEYS[2] leases      ZSET  PROCESSING
-- KEYS[3] due_high    ZSET  SCHEDULED, FAILED
-- KEYS[4] due_normal  ZSET
-- KEYS[5] due_low     ZSET
-- KEYS[6] dead        ZSET  DEAD_LETTER
-- KEYS[7] moving      ZSET  MOVING
-- KEYS[8] parked      HASH  queue, "queue name" -> tickets that no claimer could run yet
-- ARGV[1] prefix  of the partition's keys: lists and records are learnt
-- ARGV[2] most    int
-- ARGV[3] queues  JSON list: with ready tasks, by their records; others are learnt from counts
-- RETURNS {"ok", field...}: what was wrong | {"many"} | {"moving"}
-- @include read now here places counts ticket census
local counts, parked, prefix = KEYS[1], KEYS[8], ARGV[1]
local c = { prefix = prefix, left = tonumber(ARGV[2]), ids = {}, queues = {} }
for _, queue in ipairs(cjson.decode(ARGV[3])) do
  c.queues[queue] = true
end
if redis.call('HLEN', counts) + redis.call('HLEN', parked) > c.left then
  return { 'many' }
end
local said = fields_of(counts)
for field in pairs(said) do
  local queue = string.match(field, '^p[012]:(.+)$')
  c.queues[queue or ''] = queue and true or nil
end
for _, key in ipairs({ KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7] }) do
  read_index(c, key)
end
for queue in pairs(c.queues) do
  for priority = 0, 2 do
    read_list(c, list_at(prefix, queue, tostring(priority)))
    read_list(c, list_at(prefix, queue, 's' .. priority))
  end
end
for field in pairs(fields_of(parked)) do
  if string.find(field, ' ', 1, true) then
    read_list(c, prefix .. 'parked:' .. field)
  end
end
local actual = not c.moved and c.left >= 0 and count_records(c)
if c.left < 0 then
  return { 'many' }
elseif not actual then
  return { 'moving' }
end
local reply = { 'ok' }
for field, number in pairs(actual) do
  if said[field] ~= tostring(number) and not (number == 0 and not said[field]) then
    redis.call('HSET', counts, field, number)
    reply[#reply + 1] = field
  end
end
for field in pairs(said) do
  if not actual[field] then
    redis.call('HDEL', counts, field)
    reply[#reply + 1] = field
  end
end
return reply
