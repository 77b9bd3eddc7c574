-- Does the caller still hold the task? nil if so; else the item's reply. `done` is the state that
-- this very call leads to: found under the caller's token, the call is a repeat and answered ok.
local function not_held(record, task_id, token, epoch, done)
  local v = redis.call('HMGET', record, 'st', 'tk', 'ep')
  if not v[1] then
    return { 'missing', task_id }
  end
  if v[2] == token and v[3] == epoch then
    if v[1] == 'PROCESSING' then
      return nil
    end
    if v[1] == done then
      return { 'ok', task_id }
    end
  end
  return { 'lost', task_id, v[1] }
end
