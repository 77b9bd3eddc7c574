#!lua flags=no-writes
-- oldest: how long the longest waiting ready task of each queue and priority has waited, parked
-- ones included. A list with many stale tickets at its head is not told of until they are dropped.
--
-- KEYS[1] counts  HASH  says which lists there are
-- KEYS[2] parked  HASH  queue, "queue name" -> tickets that no claimer could run yet
-- ARGV[1] prefix  of the partition's keys: lists and records are learnt
-- ARGV[2] limit   int, lists to look at, and parked lists as many again
-- RETURNS {"ok", item...}; item: {queue, priority, age_ms} | {"moving"}
-- @include now here
local prefix, limit, HEADS = ARGV[1], tonumber(ARGV[2]), 4
local now_ms = math.floor(now_us() / 1000)
local reply, lists = { 'ok' }, {}
-- COUNT bounds a pass over a big hash; a small one comes whole.
for _, field in ipairs(redis.call('HSCAN', KEYS[1], 0, 'COUNT', limit)[2]) do
  local priority, queue = string.match(field, '^p([012]):(.+)$')
  if priority then
    lists[#lists + 1] = { prefix .. 'q:' .. queue .. ':' .. priority, queue }
  end
end
for _, field in ipairs(redis.call('HSCAN', KEYS[2], 0, 'COUNT', limit)[2]) do
  local queue = string.match(field, '^(%S+) ')
  if queue then
    lists[#lists + 1] = { prefix .. 'parked:' .. field, queue }
  end
end
for i = 1, math.min(#lists, 2 * limit) do
  local key, queue = lists[i][1], lists[i][2]
  if not here({ key }) then
    return { 'moving' }
  end
  for _, ticket in ipairs(redis.call('LRANGE', key, 0, HEADS - 1)) do
    local id, revision, ready_ms = string.match(ticket, '^(.-):(%d+):(%d+)$')
    local record = prefix .. 't:' .. id
    if not here({ record }) then
      return { 'moving' }
    end
    local v = redis.call('HMGET', record, 'st', 'rv', 'pr')
    if v[1] == 'PENDING' and v[2] == revision then
      reply[#reply + 1] = { queue, v[3], math.max(0, now_ms - tonumber(ready_ms)) }
      break
    end
  end
end
return reply
