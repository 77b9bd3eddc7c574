-- Takes a waiting task out of the due set and the counts; false if it does not wait. A ticket goes
-- stale by itself: lists are not searched. With the last task of its queue and priority the whole
-- list goes, or tickets would pile up where nobody claims. The lists of its priority and of its
-- place (lib/places.lua) were touched by the caller, who does not touch them again.
local function stop_waiting(prefix, counts, due, task_id, state, queue, place)
  if state == 'PENDING' then
    count_ready(counts, queue, place, -1)
    for _, of in ipairs({ string.sub(place, -1), #place > 1 and place or nil }) do
      if redis.call('HEXISTS', counts, 'p' .. of .. ':' .. queue) == 0 then
        redis.call('UNLINK', prefix .. 'q:' .. queue .. ':' .. of)
      end
    end
  elseif state == 'SCHEDULED' or state == 'FAILED' then
    redis.call('ZREM', due_of(due, place), task_id)
    count(counts, (state == 'FAILED' and 'f:' or 's:') .. queue, -1)
  else
    return false
  end
  return true
end
