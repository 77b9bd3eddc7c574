-- Is the id known here? The item's reply if so; a tombstone of a lower epoch does not count.
local function known(record, epoch)
  local v = redis.call('HMGET', record, 'st', 'ep')
  if not v[1] or (v[1] == 'REFUSED' and tonumber(v[2]) < epoch) then
    return nil
  end
  return v[1] == 'REFUSED' and { 'tombstone' } or { 'known', v[1] }
end

-- Stores the item whose keys begin at `k` and arguments at `a`, in the order of enqueue's header,
-- to start at `start_ms` at the earliest. Due times are no hint that stays: of the first one of the
-- partition a worker is told, who then knows when to look.
local function store(prefix, counts, due, expiry, k, a, now_ms, start_ms)
  local record, id, queue, priority = KEYS[k], ARGV[a], ARGV[a + 1], ARGV[a + 3]
  redis.call('HSET', record, 'sp', ARGV[a + 4], 'q', queue, 'n', ARGV[a + 2], 'pr', priority,
    'ep', ARGV[a + 5], 'ca', int(now_ms))
  redis.call('PERSIST', record) -- a tombstone of an earlier epoch had a TTL
  if ARGV[a + 6] ~= '' then redis.call('HSET', record, 'fn', ARGV[a + 6]) end
  if ARGV[a + 8] ~= '' then redis.call('HSET', record, 'mc', ARGV[a + 8]) end
  if ARGV[a + 9] ~= '' then redis.call('HSET', record, 'dd', ARGV[a + 9]) end
  if ARGV[a + 10] ~= '' then
    redis.call('HSET', record, 'ex', ARGV[a + 10], 'xk', ARGV[a + 11])
    if is_over(ARGV[a + 10], now_ms) then
      ended(prefix, record, id, 'EXPIRED', now_ms, ARGV[a + 11])
      return { 'stored', 'EXPIRED' }
    end
    redis.call('ZADD', expiry, ARGV[a + 10], id)
  end
  if start_ms > now_ms then
    redis.call('HSET', record, 'st', 'SCHEDULED', 'nx', int(start_ms))
    if be_due(due, priority, id, start_ms) then
      wake(KEYS[k + 2])
    end
    count(counts, 's:' .. queue, 1)
    changed(prefix, record, id)
    return { 'stored', 'SCHEDULED' }
  end
  make_ready(prefix, counts, record, id, queue, priority, now_ms, false)
  wake(KEYS[k + 2])
  return { 'stored', 'PENDING' }
end
