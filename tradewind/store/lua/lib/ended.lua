-- A task ends for good: COMPLETED, CANCELLED or EXPIRED. For `keep_ms` its record still answers
-- readers. The cause of the last failed attempt stays; its traceback is not worth the memory.
local function ended(prefix, record, task_id, state, now_ms, keep_ms)
  redis.call('HSET', record, 'st', state, 'fa', int(now_ms))
  redis.call('HDEL', record, 'wk', 'mc', 'nx', 'et', 'ex', 'xk', 'dk', 'se', 'fo', 'ht', 'bk')
  changed(prefix, record, task_id)
  redis.call('PEXPIRE', record, int(math.max(1, tonumber(keep_ms))))
end
