#!lua flags=no-writes
-- outbox: dead tasks that a courier should look at now, longest waiting first.
--
-- KEYS[1] outbox  ZSET  task_id -> when, ms
-- ARGV[1] prefix  of the partition's keys: records are learnt from the outbox
-- ARGV[2] limit   int
-- RETURNS {"ok", item...}; item: {task_id, fields} | {"moving"}
-- @include now here
local outbox, prefix = KEYS[1], ARGV[1]
local now_ms = int(math.floor(now_us() / 1000))
local reply = { 'ok' }
for _, id in ipairs(redis.call('ZRANGEBYSCORE', outbox, '-inf', now_ms, 'LIMIT', 0, ARGV[2])) do
  local record = prefix .. 't:' .. id
  if not here({ record }) then
    return { 'moving' }
  end
  reply[#reply + 1] = { id, redis.call('HGETALL', record) }
end
return reply
