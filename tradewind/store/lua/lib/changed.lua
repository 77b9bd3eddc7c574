-- One more revision of a record, written with the fields given; whoever watches the task is told.
-- `revision`, `watched`: its rv (1 where none is stored) and wt. Returns the new revision.
local function change(prefix, record, task_id, revision, watched, ...)
  local following = (revision or 1) + 1
  redis.call('HSET', record, 'rv', following, ...)
  if watched then
    redis.call('SPUBLISH', prefix .. 'watch', task_id)
  end
  return following
end

local function changed(prefix, record, task_id, ...)
  local v = redis.call('HMGET', record, 'rv', 'wt')
  return change(prefix, record, task_id, v[1], v[2], ...)
end
