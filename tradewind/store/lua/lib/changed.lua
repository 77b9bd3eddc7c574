-- One more revision of a record; whoever watches the task is told. Returns the revision.
local function changed(prefix, record, task_id)
  local revision = redis.call('HINCRBY', record, 'rv', 1)
  if redis.call('HEXISTS', record, 'wt') == 1 then
    redis.call('SPUBLISH', prefix .. 'watch', task_id)
  end
  return revision
end
