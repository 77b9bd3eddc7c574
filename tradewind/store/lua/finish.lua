#!lua flags=allow-oom
-- finish: record success for tasks the caller still holds. Saying it twice is harmless.
--
-- KEYS[1] counts  HASH
-- KEYS[2] leases  ZSET  task_id -> lease_until_ms
-- ARGV[1] prefix  of the partition's keys: done marks are learnt from records
-- EACH KEYS record  HASH
-- EACH ARGV task_id
-- EACH ARGV token         int
-- EACH ARGV epoch         int
-- EACH ARGV retention_ms  int
-- EACH ARGV result        bytes
-- EACH ARGV content_type
-- RETURNS {"ok", item...}; item: {"ok", task_id} | {"lost", task_id, state} | {"missing", task_id}
-- RETURNS | {"moving"}
-- @include now here counts changed ended held done
local counts, leases, prefix = KEYS[1], KEYS[2], ARGV[1]
local KEYS_EACH, ARGV_EACH = 1, 6
local now_ms = math.floor(now_us() / 1000)
local items = (#KEYS - 2) / KEYS_EACH
local marks, left_ms = {}, {}
for i = 0, items - 1 do
  local done_key = redis.call('HGET', KEYS[3 + i * KEYS_EACH], 'dd')
  if done_key then marks[i], left_ms[i] = done_mark(prefix, done_key, now_ms) end
  if marks[i] and not here({ marks[i] }) then
    return { 'moving' }
  end
end
local reply = { 'ok' }
for i = 0, items - 1 do
  local record, a = KEYS[3 + i * KEYS_EACH], 2 + i * ARGV_EACH
  local item = not_reporting(record, ARGV[a], ARGV[a + 1], ARGV[a + 2], 'COMPLETED')
  if not item then
    redis.call('HSET', record, 'rs', ARGV[a + 4], 'rt', ARGV[a + 5])
    redis.call('ZREM', leases, ARGV[a])
    count(counts, 'r:' .. redis.call('HGET', record, 'q'), -1)
    local keep_ms = math.max(1, tonumber(ARGV[a + 3])) -- SET refuses 0, after the writes above
    ended(prefix, record, ARGV[a], 'COMPLETED', now_ms, keep_ms)
    if marks[i] and left_ms[i] > 0 then
      redis.call('SET', marks[i], ARGV[a], 'PX', int(math.min(keep_ms, left_ms[i])), 'NX')
    end
    item = { 'ok', ARGV[a] }
  end
  reply[#reply + 1] = item
end
return reply
