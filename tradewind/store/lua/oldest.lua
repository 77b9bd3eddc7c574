#!lua flags=no-writes
-- oldest: for how long the longest waiting task of each queue and priority could have started:
-- ready ones, parked ones included, and due ones that nobody has made ready. A list with many stale
-- tickets at its head is not told of until they are dropped.
--
-- KEYS[1] counts      HASH  says which lists there are
-- KEYS[2] parked      HASH  queue, "queue name" -> tickets that no claimer could run yet
-- KEYS[3] due_high    ZSET  task_id -> due_ms
-- KEYS[4] due_normal  ZSET
-- KEYS[5] due_low     ZSET
-- ARGV[1] prefix  of the partition's keys: lists and records are learnt
-- ARGV[2] limit   int, lists to look at, and parked lists as many again
-- RETURNS {"ok", item...}; item: {queue, priority, age_ms}; a place may come more than once
-- RETURNS | {"moving"}
-- @include read now here ticket
local prefix, limit, HEADS, DUE = ARGV[1], tonumber(ARGV[2]), 4, 16
local now_ms = math.floor(now_us() / 1000)
local reply, lists = { 'ok' }, {}

-- False: the record has left this node. `at_revision`: nil for any that waits to be due.
local function tell(id, at_revision, since_ms)
  local record = prefix .. 't:' .. id
  if not here({ record }) then
    return false
  end
  local v = read(record, 's', 'rv', 'pr', 'q')
  local waits = at_revision and v[1] == 'PENDING' and v[2] == at_revision
    or not at_revision and (v[1] == 'SCHEDULED' or v[1] == 'FAILED')
  if waits then
    reply[#reply + 1] = { v[4], v[3], math.max(0, now_ms - tonumber(since_ms)) }
  end
  return true
end

-- COUNT bounds a pass over a big hash; a small one comes whole.
for _, field in ipairs(redis.call('HSCAN', KEYS[1], 0, 'COUNT', limit)[2]) do
  local place, queue = string.match(field, '^p(s?[012]):(.+)$')
  if place then
    lists[#lists + 1] = prefix .. 'q:' .. queue .. ':' .. place
  end
end
for _, field in ipairs(redis.call('HSCAN', KEYS[2], 0, 'COUNT', limit)[2]) do
  if string.find(field, ' ', 1, true) then
    lists[#lists + 1] = prefix .. 'parked:' .. field
  end
end
for i = 1, math.min(#lists, 2 * limit) do
  if not here({ lists[i] }) then
    return { 'moving' }
  end
  for _, text in ipairs(redis.call('LRANGE', lists[i], 0, HEADS - 1)) do
    local t = parse(text)
    if not tell(t.id, t.turn.revision, t.turn.ready_ms) then
      return { 'moving' }
    end
  end
end
for _, key in ipairs({ KEYS[3], KEYS[4], KEYS[5] }) do
  local late = redis.call('ZRANGEBYSCORE', key, '-inf', int(now_ms), 'WITHSCORES',
    'LIMIT', 0, DUE)
  for i = 1, #late, 2 do
    if not tell(late[i], nil, late[i + 1]) then
      return { 'moving' }
    end
  end
end
return reply
