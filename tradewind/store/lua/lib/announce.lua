-- A task that is dead for good is noted in `hooks` if its queue has an on_dead; a herald takes it
-- from there. `hooked`: JSON object queue -> whether, "" = the others; an empty text: no queue has.
local function announce(hooks, hooked, task_id, queue, at_ms)
  if hooked == '' then
    return
  end
  local by_queue = cjson.decode(hooked)
  local wanted = by_queue[queue]
  if wanted == nil then
    wanted = by_queue['']
  end
  if wanted then
    redis.call('ZADD', hooks, int(at_ms), task_id)
  end
end
