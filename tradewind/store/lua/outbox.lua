#!lua flags=no-writes
-- outbox: dead tasks that a courier should look at now, longest waiting first. Of those whose fence
-- a region of `groups` is outside of nothing is told, and they count towards the limit.
--
-- KEYS[1] outbox  ZSET  task_id -> when, ms
-- ARGV[1] prefix  of the partition's keys: records are learnt from the outbox
-- ARGV[2] offset  int
-- ARGV[3] limit   int
-- ARGV[4] groups  of the caller's region, comma-separated; "*" = it is this one
-- RETURNS {"ok", item...}; item: {task_id, fields} | {"moving"}
-- @include now here fence
local outbox, prefix = KEYS[1], ARGV[1]
local now_ms = int(math.floor(now_us() / 1000))
local ids = redis.call('ZRANGEBYSCORE', outbox, '-inf', now_ms, 'LIMIT', ARGV[2], ARGV[3])
local reply = { 'ok' }
for _, id in ipairs(ids) do
  local record = prefix .. 't:' .. id
  if not here({ record }) then
    return { 'moving' }
  end
  if ARGV[4] == '*' or inside(redis.call('HGET', record, 'fn'), ARGV[4]) then
    reply[#reply + 1] = { id, redis.call('HGETALL', record) }
  end
end
return reply
