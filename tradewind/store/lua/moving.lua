#!lua flags=no-writes
-- moving: moves that have begun and not ended, oldest first. Of those whose fence a region of
-- `groups` is outside of nothing is told, and they count towards the limit.
--
-- KEYS[1] moving  ZSET  task_id -> begun_ms
-- ARGV[1] prefix  of the partition's keys: records are learnt from the moves
-- ARGV[2] offset  int
-- ARGV[3] limit   int
-- ARGV[4] groups  of the caller's region, comma-separated; "*" = it is this one
-- RETURNS {"ok", now_ms, item...}; item: {task_id, fields} | {"moving"}
-- @include now here fence
local moving, prefix = KEYS[1], ARGV[1]
local last = ARGV[2] + ARGV[3] - 1
local ids = redis.call('ZRANGE', moving, ARGV[2], last)
local reply = { 'ok', int(math.floor(now_us() / 1000)) }
for _, id in ipairs(ids) do
  local record = prefix .. 't:' .. id
  if not here({ record }) then
    return { 'moving' }
  end
  local v = redis.call('HMGET', record, 's', 'fn')
  if v[1] == 'MOVING' and (ARGV[4] == '*' or inside(v[2], ARGV[4])) then
    reply[#reply + 1] = { id, redis.call('HGETALL', record) }
  end
end
return reply
