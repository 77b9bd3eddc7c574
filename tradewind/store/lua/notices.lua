#!lua flags=allow-oom
-- notices: dead tasks whose queue's on_dead is to hear of them now, longest waiting first. They are
-- the caller's for `hold_ms`: then, unless it said how that ended, they are due again.
--
-- KEYS[1] hooks  ZSET  task_id -> when on_dead is to hear of it, ms
-- ARGV[1] prefix   of the partition's keys: records are learnt from hooks
-- ARGV[2] limit    int
-- ARGV[3] hold_ms  int
-- RETURNS {"ok", now_ms, item...}; item: {task_id, fields} | {"moving"}
-- @include now here
local hooks, prefix = KEYS[1], ARGV[1]
local now_ms = math.floor(now_us() / 1000)
local ids = redis.call('ZRANGEBYSCORE', hooks, '-inf', int(now_ms), 'LIMIT', 0, ARGV[2])
for _, id in ipairs(ids) do
  if not here({ prefix .. 't:' .. id }) then
    return { 'moving' }
  end
end
local reply, gone = { 'ok', int(now_ms) }, {}
for _, id in ipairs(ids) do
  local record = prefix .. 't:' .. id
  if redis.call('HGET', record, 's') == 'DEAD_LETTER' then
    redis.call('ZADD', hooks, int(now_ms + tonumber(ARGV[3])), id)
    reply[#reply + 1] = { id, redis.call('HGETALL', record) }
  else -- revived by a worker of a release that knew no hooks
    gone[#gone + 1] = id
  end
end
if #gone > 0 then
  redis.call('ZREM', hooks, unpack(gone))
end
return reply
