-- The whole number, as a text, that follows another one's. Most stand for many tasks of a call.
local texts_after = {}

local function after(number)
  local text = texts_after[number]
  if not text then
    text = string.format('%.0f', (tonumber(number) or 0) + 1) -- 0: a damaged one
    texts_after[number] = text
  end
  return text
end

-- One more revision of a record, written with the fields given; whoever watches the task is told.
-- `revision`, `watched`: its rv (1 where none is stored) and wt. Returns the new revision.
local function change(prefix, record, task_id, revision, watched, ...)
  local new = after(revision or '1')
  redis.call('HSET', record, 'rv', new, ...)
  if watched then
    redis.call('SPUBLISH', prefix .. 'watch', task_id)
  end
  return new
end

local function changed(prefix, record, task_id, ...)
  local v = redis.call('HMGET', record, 'rv', 'wt')
  return change(prefix, record, task_id, v[1], v[2], ...)
end
