-- Takes a waiting task out of the due set and the counts; false if it does not wait. A ticket goes
-- stale by itself: lists are not searched. With the last task of its queue and priority the whole
-- list goes, or tickets would pile up where nobody claims. The list was touched by the caller, who
-- does not touch it again.
local function stop_waiting(prefix, counts, due, task_id, state, queue, priority)
  if state == 'PENDING' then
    count_ready(counts, queue, priority, -1)
    if redis.call('HEXISTS', counts, 'p' .. priority .. ':' .. queue) == 0 then
      redis.call('UNLINK', prefix .. 'q:' .. queue .. ':' .. priority)
    end
  elseif state == 'SCHEDULED' or state == 'FAILED' then
    redis.call('ZREM', due, task_id)
    count(counts, (state == 'FAILED' and 'f:' or 's:') .. queue, -1)
  else
    return false
  end
  return true
end
