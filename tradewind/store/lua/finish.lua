#!lua flags=allow-oom
-- finish: record success for tasks the caller still holds. Saying it twice is harmless.
--
-- KEYS[1] counts  HASH
-- KEYS[2] leases  ZSET  task_id -> lease_until_ms
-- ARGV[1] prefix  of the partition's keys: done marks are learnt from records
-- ARGV[2] tight   int, 1 where this server is nearly full: see lib/spare
-- EACH KEYS record  HASH
-- EACH ARGV task_id
-- EACH ARGV token         int
-- EACH ARGV epoch         int
-- EACH ARGV retention_ms  int
-- EACH ARGV result        bytes
-- EACH ARGV content_type
-- RETURNS {"ok", item...}; item: task_id, as recorded | {"ok", task_id}, as it was already
-- RETURNS | {"lost", task_id, state} | {"missing", task_id} | {"moving"}
-- @include read now here pieces counts changed ended held done spare
local counts, leases, prefix, is_tight = KEYS[1], KEYS[2], ARGV[1], ARGV[2] == '1'
local KEYS_EACH, ARGV_EACH = 1, 6
-- Most records have nothing but what every run has: s, p, c, q, n, rv, tk, at, wk and sa, and dd
-- where they were deduplicated. Beside these there is nothing to read then, and wk and dd are
-- overwritten instead of removed: what says nothing is absent, or empty.
local PLAIN, NONE = 10, {}
local now_ms = math.floor(now_us() / 1000)
local items = (#KEYS - 2) / KEYS_EACH
local seen, marks, left_ms, touched = {}, {}, {}, {}
for i = 0, items - 1 do
  local record = KEYS[3 + i * KEYS_EACH]
  local v = seen[record]
  if not v then
    local run = redis.call('HMGET', record, 's', 'tk', 'rv', 'q', 'dd')
    local more = redis.call('HLEN', record) == (run[5] and PLAIN + 1 or PLAIN) and NONE
      or redis.call('HMGET', record, 'ep', 'wt', 'bk', 'cr')
    v = { run[1], run[2], more[1] or '1', run[3], run[4], more, run[5] }
    seen[record] = v
  end
  if v[7] and v[7] ~= '' then
    marks[i], left_ms[i] = done_mark(prefix, v[7], now_ms)
    touched[#touched + 1] = marks[i]
  end
end
if not all_here(touched) then
  return { 'moving' }
end
local reply, sums, gone = { 'ok' }, {}, {}
for i = 0, items - 1 do
  local record, a = KEYS[3 + i * KEYS_EACH], 3 + i * ARGV_EACH
  local v = seen[record]
  local item = not_held_by(v, ARGV[a], ARGV[a + 1], ARGV[a + 2], 'COMPLETED')
  if not item then
    v[1] = 'COMPLETED' -- a second report within this call is a repeat
    local more, result = v[6], is_tight and spare(record, ARGV[a + 4]) or ARGV[a + 4]
    if more[3] then redis.call('HSET', record, 'cr', more[4] - 1) end -- see not_reporting
    if more ~= NONE then redis.call('HDEL', record, 'mc', 'et', 'ex', 'xk', 'bk', 'dd', 'hc') end
    if ARGV[a + 5] ~= 'application/json' then -- else readers know what it is
      redis.call('HSET', record, 'rt', ARGV[a + 5])
    end
    if v[7] and more == NONE then
      end_as(prefix, record, ARGV[a], v[4], nil, 'COMPLETED', now_ms, ARGV[a + 3],
        'wk', '', 'rs', result, 'dd', '')
    else
      end_as(prefix, record, ARGV[a], v[4], more[2], 'COMPLETED', now_ms, ARGV[a + 3],
        'wk', '', 'rs', result)
    end
    if marks[i] and left_ms[i] > 0 then
      local keep_ms = math.max(1, math.min(tonumber(ARGV[a + 3]), left_ms[i])) -- SET refuses 0
      redis.call('SET', marks[i], ARGV[a], 'PX', int(keep_ms), 'NX')
    end
    add(sums, 'r:' .. (v[5] or 'default'), -1) -- see lib/read
    gone[#gone + 1] = ARGV[a]
    item = ARGV[a]
  end
  reply[#reply + 1] = item
end
book(counts, sums)
in_pieces('ZREM', leases, gone)
return reply
