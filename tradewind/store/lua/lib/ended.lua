-- A task ends for good: COMPLETED, CANCELLED or EXPIRED, with the fields given. For `keep_ms` its
-- record still answers readers. The cause of the last failed attempt stays; its traceback is not
-- worth the memory, nor is what only a task needs that may still run.
local function end_as(prefix, record, task_id, revision, watched, state, now_ms, keep_ms, ...)
  change(prefix, record, task_id, revision, watched, 's', state, 'fa', int(now_ms), ...)
  redis.call('PEXPIRE', record, int(math.max(1, tonumber(keep_ms))))
end

local function ended(prefix, record, task_id, state, now_ms, keep_ms)
  local v = redis.call('HMGET', record, 'rv', 'wt')
  redis.call('HDEL', record, 'wk', 'mc', 'nx', 'et', 'ex', 'xk', 'dk', 'se', 'fo', 'ht', 'bk',
    'dd', 'hc')
  end_as(prefix, record, task_id, v[1], v[2], state, now_ms, keep_ms)
end
