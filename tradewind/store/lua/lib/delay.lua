-- State SCHEDULED or FAILED until due; the caller has touched `hint`. Of the first one of the
-- partition a worker is told, who then knows when to look.
local function delay(prefix, counts, due, t, state, due_ms, hint)
  redis.call('HSET', t.record, 's', state, 'nx', int(due_ms))
  if be_due(due, t.priority, t.id, due_ms) then
    wake(hint)
  end
  count(counts, (state == 'FAILED' and 'f:' or 's:') .. t.queue, 1)
  changed(prefix, t.record, t.id)
end
