-- State PENDING: a new revision, and a ticket that only this revision redeems. Tickets carry what
-- claim needs: task_id:revision:since_ms, in line since then, and :ready_ms where that differs.
-- What came due and was not made ready did not wait behind others yet; and what is put back in
-- front is in line for no less long than what is behind it, or it would hide how long that waits.
-- Returns the revision. The caller has set every other field and has touched record and list.
-- `place`: lib/places.lua; `due_ms` may be nil.
local function make_ready(prefix, counts, record, task_id, queue, place, now_ms, at_head, due_ms)
  local revision = tostring(changed(prefix, record, task_id, 's', 'PENDING'))
  local list = prefix .. 'q:' .. queue .. ':' .. place
  local since_ms, ready_ms = now_ms, due_ms or now_ms
  local head = at_head and redis.call('LINDEX', list, 0)
  if head then
    since_ms = math.min(now_ms, tonumber(string.match(head, '^.-:%d+:(%d+)')))
  end
  local ticket = task_id .. ':' .. revision .. ':' .. int(since_ms)
  if ready_ms ~= since_ms then
    ticket = ticket .. ':' .. int(ready_ms)
  end
  redis.call(at_head and 'LPUSH' or 'RPUSH', list, ticket)
  count_ready(counts, queue, place, 1)
  return revision
end
